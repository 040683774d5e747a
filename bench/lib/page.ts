import { type Measurement, meetsGoal, type Results } from './results.ts'

/** Each suite's heading, the text above its table, and the unit of its chart. */
export const SUITES: Readonly<
  Record<
    string,
    { readonly title: string; readonly text: string; readonly unit: string; readonly environment?: string }
  >
> = {
  client: {
    title: 'Core compared with other clients',
    text: 'Speed relative to raw undici, which sends the same requests and parses the responses; higher is faster. A client that sends one request per call can reach about 1 at most. Client CPU is the CPU time of the client process.',
    unit: 'µs',
    environment: 'libsql-server',
  },
  orm: {
    title: 'With Kysely and Drizzle',
    text: 'Speed relative to core with the same statements written by hand.',
    unit: 'µs',
    environment: 'libsql-server',
  },
  'cold start': {
    title: 'Cold start',
    text: 'Speed of whole Node processes. Processes that read one row are compared with one that uses the built-in `fetch`; processes that only import a package are compared with an empty program.',
    unit: 'ms',
  },
  distance: {
    title: 'Over a network with 25 ms latency',
    text: 'Speed relative to raw undici sending the same requests as core.',
    unit: 'ms',
  },
  wire: {
    title: 'On the wire',
    text: 'Number of requests, and bytes in their bodies, for one operation of each kind.',
    unit: 'requests',
  },
  size: {
    title: 'Bundles',
    text: 'A program with one SELECT, minified by esbuild and compressed, excluding code that `import()` loads on demand.',
    unit: 'bytes gzip',
    environment: 'edge',
  },
  options: {
    title: 'What options cost',
    text: 'Core with a server that responds from memory, relative to core without options.',
    unit: 'µs',
  },
  servers: {
    title: 'The embedded server compared with libsql-server',
    text: 'One client against both servers; a ratio above 1 means that the embedded server is faster.',
    unit: 'µs',
  },
  gateway: {
    title: 'The gateway in front of libsql-server',
    text: 'What `baton dev --backend sqld` adds, compared with a proxy that forwards requests with undici and parses each body once; the client is raw undici, with a token. Server CPU is the CPU time of the proxy or the gateway alone. A program that needs none of the features of the gateway (tokens for individual databases, the platform API, limits on SQL, protection from lost writers) is fastest when it uses libsql-server directly.',
    unit: 'µs',
  },
  memory: {
    title: 'Memory',
    text: 'Peak memory above what the process used before the query.',
    unit: 'peak MiB',
  },
}

export const getChartName = (suite: string): string => `${suite.replaceAll(' ', '-')}.svg`

/** The rows of the summary page, which compares Baton with the client that the reader uses now. */
const SUMMARY = [
  ['client', 'SELECT, one by one'],
  ['client', 'SELECT, 64 in flight'],
  ['client', 'INSERT, one by one'],
  ['client', 'transaction of three awaited statements'],
  ['client', 'transaction of five statements at once'],
  ['client', 'batch of 100'],
  ['client', '10,000 rows of six columns, per row'],
  ['client', '1,000 vectors of 384 floats, per vector'],
  ['cold start', 'process to first row'],
  ['distance', 'transaction of three awaited statements'],
] as const
const [OURS, ORIGINAL, ALTERNATIVE] = ['baton', '@libsql/client', '@tursodatabase/serverless']

/** Finds the time of a subject in a row of the summary; undefined if it does not support the operation. */
function findTime({ measurements }: Results, row: number, subject: string): Measurement | undefined {
  const [suite, operation] = SUMMARY[row] as (typeof SUMMARY)[number]
  return findMeasurement(measurements, { suite, operation, subject })
}

/** Finds the time of an operation with a subject, on libsql-server. */
function findMeasurement(
  measurements: Results['measurements'],
  { suite, operation, subject }: Pick<Measurement, 'suite' | 'operation' | 'subject'>,
): Measurement | undefined {
  return measurements.find(
    (candidate) =>
      candidate.suite === suite &&
      candidate.operation === operation &&
      candidate.subject === subject &&
      candidate.environment !== 'embedded' &&
      (candidate.unit === 'µs' || candidate.unit === 'ms'),
  )
}

/** Returns the speed relative to `@libsql/client` for the chart. Ratios that would dwarf the others are only in the table. */
export function summaryMeasurements(results: Results): Measurement[] {
  const ratios = SUMMARY.map(([suite, operation], index) =>
    [OURS, ORIGINAL, ALTERNATIVE].flatMap((subject) => {
      const [time, original] = [findTime(results, index, subject), findTime(results, index, ORIGINAL)]
      if (!time || !original) return []
      const label = suite === 'distance' ? `${operation}, 25 ms away` : operation
      return { ...time, operation: label, ratio: original.value / time.value }
    }),
  )
  return ratios.filter((group) => group.every(({ ratio }) => ratio < 5)).flat()
}

/**
 * Returns the page `docs/performance.md`.
 * @param folder the folder of the charts and the other pages, relative to the page
 */
export function formatSummaryPage(results: Results, folder: string): string {
  const { node, server, cpu, cores, rounds, measurements } = results
  const linkTo = (suite: string): string => `${folder}/${suite.replaceAll(' ', '-')}.md`
  const formatCell = (measurement: Measurement | undefined): string =>
    measurement ? `${formatValue(measurement.value)} ${measurement.unit}` : 'not supported'
  const rows = SUMMARY.map(([suite, operation], index) => {
    const [ours, original, alternative] = [OURS, ORIGINAL, ALTERNATIVE].map((subject) =>
      findTime(results, index, subject),
    )
    const factor = ours && original ? `${(original.value / ours.value).toFixed(1)}×` : ''
    const suffix = suite === 'distance' ? ', 25 ms away' : ''
    return `| [${operation}${suffix}](${linkTo(suite)}) | ${formatCell(ours)} | ${formatCell(original)} | ${formatCell(alternative)} | ${factor} |`
  })
  const suites = Object.entries(SUITES)
    .filter(([suite]) => measurements.some((measurement) => measurement.suite === suite))
    .map(([suite, { title, text }]) => `- [${title}](${linkTo(suite)}). ${text}`)
  return `# Performance

How much faster is Baton than other clients? Measured on ${server}, node ${node},
${cores} × ${cpu}, with client and server on one machine.

![Speed relative to @libsql/client](${folder}/summary.svg)

| | Baton | @libsql/client | @tursodatabase/serverless | compared with @libsql/client |
|---|---|---|---|---|
${rows.join('\n')}

**When is it not faster?** When each statement waits for the previous one and the database is far away, the time is spent on the network, and
only sending fewer requests helps: use \`coalesce\` (${formatRatio(results, 'distance', '100 SELECTs at once')} for 100 SELECTs at once), or do not await the statements of a transaction one by one.
Hand-written undici requests are the upper bound for one request per call. Relative to them, a SELECT runs at ${formatRatio(results, 'client', 'SELECT, one by one', OURS)}
and a transaction of three statements at ${formatRatio(results, 'client', 'transaction of three awaited statements', OURS)}. Other clients have smaller bundles.

## All figures

${suites.join('\n')}

The command is \`npm run bench\`. Subjects take turns within each of its rounds, at least ${rounds}, each in its own process; a figure is the
median over the rounds, and a ratio is the median of the ratios within each round. \`npm run bench -- --compare\` fails when one of Baton's ratios is
more than 10% worse than on these pages, and \`--write\` writes these pages. Torn transactions are counted by \`npm run bench:torn\`; write
contention is measured by \`npm run bench:contention\`.
`
}

/** Returns the speed as a ratio to the suite's baseline, as text. */
function formatRatio(
  { measurements }: Results,
  suite: string,
  operation: string,
  subject = 'baton, coalescing',
): string {
  const measurement = findMeasurement(measurements, { suite, operation, subject })
  return measurement ? `${measurement.ratio.toFixed(2)}×` : 'not measured'
}

/** Returns the page of a suite, in the folder of the charts; null if it was not measured. */
export function formatSuitePage({ measurements }: Results, suite: string): string | null {
  const suiteMeasurements = measurements.filter((measurement) => measurement.suite === suite)
  const suiteText = SUITES[suite]
  if (suiteMeasurements.length === 0 || !suiteText) return null
  const { title, text } = suiteText
  const command = `npm run bench -- --only ${suite.includes(' ') ? `'${suite}'` : suite}`
  return `# ${title}\n\n${text} From \`${command}\`; the [summary](../performance.md) describes the machine.\n\n![${title}](${getChartName(suite)})\n\n${formatTable(suiteMeasurements)}`
}

function formatTable(measurements: readonly Measurement[]): string {
  const rows = measurements.map((measurement) => {
    const { operation, environment, subject, unit, value, ratio, goal } = measurement
    const goalText = goal === undefined ? '' : `${goal}${meetsGoal(measurement) ? '' : ', missed'}`
    return `| ${operation} | ${environment} | ${subject} | ${formatValue(value)} ${unit} | ${ratio.toFixed(2)} | ${goalText} |`
  })
  return [
    '| benchmark | on | subject | result | ratio | goal |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

const formatValue = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
