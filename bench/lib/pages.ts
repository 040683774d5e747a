// Formats the performance pages from the recorded results. `npm run pages` writes them.
import { drawRatios } from './chart.ts'
import { type Measurement, meetsGoal, type Results, type Row } from './results.ts'

interface Suite {
  readonly title: string
  /** The text above its tables. */
  readonly text: string
  /** The page that has its tables. */
  readonly page: 'clients' | 'servers'
}

/** The suites, by the name that `npm run bench` takes. */
export const SUITES: Readonly<Record<string, Suite>> = {
  client: {
    title: 'Core compared with other clients',
    text: 'The baseline is raw undici, which sends the same requests as core and parses the responses. A client that sends one request for each call can at best match it; core is faster where it parses rows and vectors itself, or where `coalesce` sends fewer requests. Client CPU is the CPU time of the client process.',
    page: 'clients',
  },
  orm: {
    title: 'With Kysely and Drizzle',
    text: 'The baseline is core with the same statements, written by hand.',
    page: 'clients',
  },
  'cold-start': {
    title: 'Cold start',
    text: 'Whole Node processes. Those that read one row are compared with one that uses the built-in `fetch`; those that only import a package, with an empty program.',
    page: 'clients',
  },
  distance: {
    title: 'Over a network with 25 ms latency',
    text: 'The baseline is raw undici, which sends the same requests as core. The other tables have the number of requests, and the bytes in their bodies.',
    page: 'clients',
  },
  optimistic: {
    title: 'Writers on a database that is far away',
    text: '16 callers, each with transactions of two reads and two writes, all of them awaited, on a database with a round trip of 25 to 150 ms; how many rows they choose from says how often two of them want the same one. The baseline is `transaction()` of core, which holds the write lock for all of its round trips.',
    page: 'clients',
  },
  size: {
    title: 'Bundles',
    text: 'A program with one SELECT, minified by esbuild and compressed, without the code that `import()` loads on demand.',
    page: 'clients',
  },
  memory: {
    title: 'Memory',
    text: 'Peak memory above what the process used before the query. The baseline is the same query with 250,000 rows.',
    page: 'clients',
  },
  gateway: {
    title: 'The gateway in front of libsql-server',
    text: 'What `baton dev --backend sqld` adds to libsql-server. The baseline is a proxy that forwards requests with undici and parses each body once; the client is raw undici, with a token. Server CPU is the CPU time of the proxy or the gateway alone. A program that needs none of the features of the gateway (tokens for individual databases, the platform API, limits on SQL, protection from lost writers) is fastest when it uses libsql-server directly.',
    page: 'servers',
  },
}

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
  ['cold-start', 'process to first row'],
  ['distance', 'transaction of three awaited statements'],
] as const
const [OURS, ORIGINAL, ALTERNATIVE] = ['baton', '@libsql/client', '@tursodatabase/serverless']

/** Returns the pages and the chart, by path from the root of the repository. */
export function performancePages(results: Results): Record<string, string> {
  return {
    'docs/performance.md': formatSummaryPage(results),
    'docs/performance/clients.md': formatClientsPage(results),
    'docs/performance/servers.md': formatServersPage(results),
    'docs/performance/summary.svg': drawRatios(
      'Speed relative to @libsql/client',
      summaryMeasurements(results),
    ),
    'packages/core/docs/pictures/optimistic.svg': drawRatios(
      'Transactions per second of 16 writers, 50 ms away, relative to transaction()',
      optimisticMeasurements(results),
    ),
  }
}

/** Finds the time of an operation on libsql-server. */
function findTimes({ rows }: Results, suite: string, operation: string): Row | undefined {
  return rows.find(
    (row) =>
      row.suite === suite &&
      row.operation === operation &&
      row.environment !== 'embedded' &&
      (row.unit === 'µs' || row.unit === 'ms'),
  )
}

/** Returns the speed relative to `@libsql/client` for the chart. Ratios that would dwarf the others are only in the table. */
function summaryMeasurements(results: Results): Measurement[] {
  const groups = SUMMARY.map(([suite, operation]) => {
    const row = findTimes(results, suite, operation)
    const [original] = row?.subjects[ORIGINAL] ?? []
    if (row === undefined || original === undefined) return []
    const label = suite === 'distance' ? `${operation}, 25 ms away` : operation
    return [OURS, ORIGINAL, ALTERNATIVE].flatMap((subject) => {
      const [value] = row.subjects[subject] ?? []
      return value === undefined ? [] : { ...row, operation: label, subject, value, ratio: original / value }
    })
  })
  return groups.filter((group) => group.every(({ ratio }) => ratio < 5)).flat()
}

const OPTIMISTIC_SUBJECTS = {
  'optimistic()': 'baton, optimistic()',
  'transaction()': 'baton, transaction()',
  '@libsql/client': '@libsql/client',
  '@tursodatabase/serverless': '@tursodatabase/serverless',
}

const findRates = ({ rows }: Results): Row[] =>
  rows.filter(
    ({ suite, unit, operation }) =>
      suite === 'optimistic' && unit === 'transactions/s' && operation.endsWith(', 50 ms'),
  )

function optimisticMeasurements(results: Results): Measurement[] {
  return findRates(results).flatMap((row) =>
    Object.entries(OPTIMISTIC_SUBJECTS).flatMap(([name, subject]) => {
      const [value, ratio] = row.subjects[name] ?? []
      if (value === undefined || ratio === undefined) return []
      return {
        ...row,
        operation: `choosing from ${row.operation.replace(', 50 ms', '')}`,
        subject,
        value,
        ratio,
      }
    }),
  )
}

function formatSummaryPage(results: Results): string {
  const { node, server, cpu, cores, rounds } = results
  const table = SUMMARY.map(([suite, operation]) => {
    const { subjects = {}, unit = '' } = findTimes(results, suite, operation) ?? {}
    const values = [OURS, ORIGINAL, ALTERNATIVE].map((subject) => subjects[subject]?.[0])
    const cells = values.map((value) =>
      value === undefined ? 'not supported' : `${formatValue(value)} ${unit}`,
    )
    const [ours = 0, original = 0] = values
    const name = suite === 'distance' ? `${operation}, 25 ms away` : operation
    return `| ${name} | ${cells.join(' | ')} | ${(original / ours).toFixed(1)}× |`
  })
  const ratio = (suite: string, operation: string, subject: string): string =>
    `${findTimes(results, suite, operation)?.subjects[subject]?.[1].toFixed(2)}×`
  return `# Performance

How much faster is Baton than other clients? Measured on ${server}, node ${node},
${cores} × ${cpu}, with client and server on one machine.

![Speed relative to @libsql/client](performance/summary.svg)

| | Baton | @libsql/client | @tursodatabase/serverless | compared with @libsql/client |
|---|---|---|---|---|
${table.join('\n')}

All figures: [clients](performance/clients.md) (core, Kysely and Drizzle, cold starts, requests, bundles, memory) and
[servers](performance/servers.md) (embedded, gateway, many writers, many databases).

${formatOptimistic(results)}

**When is it not faster?** When each statement waits for the previous one and the database is far away, the time is spent on the
network, and only sending fewer requests helps: use \`coalesce\` (${ratio('distance', '100 SELECTs at once', 'baton, coalescing')} for 100 SELECTs at once), or do not await the
statements of a transaction one by one. Compared with requests that are written by hand with undici, a SELECT runs at ${ratio('client', 'SELECT, one by one', OURS)} and a
transaction of three statements at ${ratio('client', 'transaction of three awaited statements', OURS)}. Other clients have smaller bundles.

## How it is measured

\`npm run bench\` lists the benchmarks. Subjects take turns within each round, each in its own process, so that a change in the
machine's speed affects all of them. There are at least ${rounds} rounds; a figure is the median over the rounds, and a ratio is the
median of the ratios within each round. \`npm run bench -- all --compare\` fails if one of Baton's ratios is more than 10 % worse than
on these pages; \`--write\` records the figures in \`bench/results/results.json\`, from which \`npm run pages\` writes these pages.
`
}

function formatOptimistic(results: Results): string {
  const [many, , one] = findRates(results).map(({ subjects }) => subjects)
  const rate = (row: Row['subjects'] | undefined, name: string): string =>
    formatValue(row?.[name]?.[0] ?? Number.NaN)
  return `**Many writers, far away.** 16 writers on a database with a round trip of 50 ms complete ${rate(many, 'optimistic()')} transactions of two
reads and two writes a second with \`optimistic()\`, ${rate(many, 'transaction()')} with \`transaction()\` and ${rate(many, ORIGINAL)} with @libsql/client. This is not for a row that
everybody writes: there it is ${rate(one, 'optimistic()')} and ${rate(one, 'transaction()')}. See [Optimistic transactions](../packages/core/docs/optimistic.md).`
}

function formatClientsPage(results: Results): string {
  return `# Performance of clients

${CELLS} The [summary](../performance.md) describes the machine.

${listSections(Object.values(SUITES).filter(({ page }) => page === 'clients'))}

${formatSuites(results, 'clients')}`
}

/** Explains a cell of the tables. */
const CELLS =
  'Each cell has the median, and in parentheses the ratio to the baseline, whose cells have none. For times a ratio above 1 is faster; for anything else a ratio below 1 is less.'

function formatServersPage(results: Results): string {
  const { torn: _, ...rest } = results
  return `# Performance of servers

[Clients](clients.md) has the figures of clients; the [summary](../performance.md) describes the machine.

${listSections([{ title: EMBEDDED_TITLE }, ...Object.values(SUITES).filter(({ page }) => page === 'servers'), { title: 'Many writers' }, { title: 'Many databases' }])}

## ${EMBEDDED_TITLE}

Core on both servers, one round after the other; a ratio above 1 means that the embedded server is faster.

${formatEmbedded(results)}
${formatSuites(results, 'servers', CELLS)}
${formatContention(rest)}
${formatManyDatabases(rest)}`
}

const EMBEDDED_TITLE = 'The embedded server compared with libsql-server'

const listSections = (sections: readonly { readonly title: string }[]): string =>
  sections
    .map(
      ({ title }) =>
        `- [${title}](#${title
          .toLowerCase()
          .replaceAll(/[^\w -]/g, '')
          .replaceAll(' ', '-')})`,
    )
    .join('\n')

/** Compares the times of core on the two servers. */
function formatEmbedded({ rows }: Results): string {
  const timesOn = (environment: string): Row[] =>
    rows.filter((row) => row.suite === 'client' && row.unit === 'µs' && row.environment === environment)
  const lines = timesOn('libsql-server').map(({ operation, subjects }) => {
    const [sqld = Number.NaN] = subjects[OURS] ?? []
    const [embedded = Number.NaN] =
      timesOn('embedded').find((row) => row.operation === operation)?.subjects[OURS] ?? []
    return `| ${operation} | ${formatValue(sqld)} µs | ${formatValue(embedded)} µs | ${(sqld / embedded).toFixed(2)} |`
  })
  return ['| | libsql-server | embedded | ratio |', '|---|---|---|---|', ...lines, ''].join('\n')
}

function formatSuites({ rows }: Results, page: Suite['page'], note = ''): string {
  const sections = Object.entries(SUITES).filter(([, suite]) => suite.page === page)
  return sections
    .map(([name, { title, text }]) => {
      const command = `\`npm run bench -- ${name}\``
      const tables = formatTables(rows.filter(({ suite }) => suite === name))
      return `## ${title}\n\n${text}${note && ` ${note}`} From ${command}.\n\n${tables}`
    })
    .join('\n')
}

/** Returns a table for each environment and unit: a row for each operation, a column for each subject. */
function formatTables(rows: readonly Row[]): string {
  const tables = new Map<string, Row[]>()
  for (const row of rows) {
    const key = JSON.stringify([row.environment, row.unit, row.baseline])
    tables.set(key, [...(tables.get(key) ?? []), row])
  }
  return [...tables.values()]
    .map((tableRows) => {
      const [first] = tableRows
      const caption = `${first?.environment}, ${first?.unit}`
      const subjects = [...new Set(tableRows.flatMap((row) => Object.keys(row.subjects)))]
      const lines = tableRows.map(
        (row) => `| ${row.operation} | ${subjects.map((name) => formatCell(row, name)).join(' | ')} |`,
      )
      return [
        `| ${caption} | ${subjects.join(' | ')} |`,
        `|---|${subjects.map(() => '---|').join('')}`,
        ...lines,
        '',
      ].join('\n')
    })
    .join('\n')
}

function formatCell({ subjects, baseline }: Row, subject: string): string {
  const figures = subjects[subject]
  if (figures === undefined) return '–'
  const [value, ratio, goal] = figures
  if (subject === baseline) return formatValue(value)
  const missed = meetsGoal({ ratio, goal }) ? '' : ', missed'
  return `${formatValue(value)} (${ratio.toFixed(2)}${goal === undefined ? '' : `; goal ${goal}${missed}`})`
}

const formatValue = (value: number): string =>
  value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString('en') : value.toPrecision(3)

function formatContention({ contention, cores }: Pick<Results, 'contention' | 'cores'>): string {
  const lines = contention.map((row) => {
    const stall = `${(row.longestStallMs / 1_000).toFixed(1)} s`
    const wal = `${(row.largestWalBytes / 1e6).toFixed(0)} MB`
    const dead = row.isResponsive ? '' : ' **no response to writes afterwards**'
    return `| ${row.load}, ${row.seconds} s | ${row.server} | ${row.client} | ${row.commitsPerSecond}${dead} | ${row.failed} | ${stall} | ${wal} |`
  })
  return `## Many writers

Several writers on one database, beside reports: read transactions that stay open for three seconds. A report keeps the WAL from being
reset, so it grows. On ${cores} cores that clients and servers share with other work, with the data on disk: compare only adjacent rows. From
\`npm run bench -- contention\`. After each load ${contention.every(({ isResponsive }) => isResponsive) ? 'all servers responded' : 'some servers did not respond'} to a write within 15 s; a libsql-server without the gateway
usually survives twenty seconds, but [not always](../self-hosting.md#why-it-happens). To load the gateway for ten minutes, add
\`--seconds 600 --load "12 writers, two" --server baton\`.

| load | server | client | commits/s | failed | longest time without a commit | largest WAL |
|---|---|---|---|---|---|---|
${lines.join('\n')}
`
}

function formatManyDatabases({ many, cores }: Pick<Results, 'many' | 'cores'>): string {
  const names = [...new Set(many.flatMap(({ figures }) => Object.keys(figures)))]
  const lines = names.map(
    (name) => `| ${name} | ${many.map(({ figures }) => figures[name] ?? '–').join(' | ')} |`,
  )
  return `## Many databases

A server whose databases are all queried in turn, 64 requests at a time, on ${cores} cores, with the data on disk; memory is the total of all
processes of the server. From \`npm run bench -- many\`.

| | ${many.map(({ server }) => server).join(' | ')} |
|---|${many.map(() => '---|').join('')}
${lines.join('\n')}

The server ran with the two environment variables [recommended](../self-hosting.md#memory). The embedded engine closes databases that are
not in use, and a write to one that is closed waits for the disk several times. libsql-server keeps up to 1,000 databases open, each with
about half a megabyte and five files, and closes and opens them if more are in use at once. If that is too slow, put databases that are
used at the same time into several groups, as in the last column: each group has its own libsql-server, which keeps up to 1,000 databases
open.
`
}
