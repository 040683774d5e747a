import { type Measurement, meets, type Results } from './results.ts'

/** What each suite is about: its heading, what its picture says, which figure that shows, and text above the table. */
export const SUITES: Readonly<
  Record<
    string,
    { readonly title: string; readonly text: string; readonly figure: string; readonly where?: string }
  >
> = {
  client: {
    title: 'Core beside other clients',
    text: 'Speed as a ratio to raw undici that sends the same requests and parses the answers: 1 is the limit of a request for each call, more is faster. The client CPU is that of its process.',
    figure: 'µs',
    where: 'libsql-server',
  },
  orm: {
    title: 'Under Kysely and Drizzle',
    text: 'Speed as a ratio to core with the same statements written by hand.',
    figure: 'µs',
    where: 'libsql-server',
  },
  'cold start': {
    title: 'Cold start',
    text: 'Whole processes of node: those that ask for one row as a ratio to one that does it with the built-in `fetch`, those that import something as a ratio to one that does nothing.',
    figure: 'ms',
  },
  distance: {
    title: 'Behind a network of 25 ms',
    text: 'Speed as a ratio to raw undici that sends the requests of core.',
    figure: 'ms',
  },
  wire: { title: 'On the wire', text: 'Requests and bytes of bodies for one of each.', figure: 'requests' },
  size: {
    title: 'Bundles',
    text: 'A program with one SELECT, minified by esbuild, and compressed.',
    figure: 'bytes gzip',
    where: 'edge',
  },
  options: {
    title: 'What options cost',
    text: 'Core on a server that answers from memory, as a ratio to core as it is.',
    figure: 'µs',
  },
  servers: {
    title: 'The embedded server beside libsql-server',
    text: 'The same client, in the same rounds; above 1 the embedded one is faster.',
    figure: 'µs',
  },
  memory: { title: 'Memory', text: 'Over what the process had before.', figure: 'peak MiB' },
}

export const pictureOf = (suite: string): string => `${suite.replaceAll(' ', '-')}.svg`

/** The page `docs/performance.md`. @param folder where the pictures are, from the page */
export function writePage(results: Results, folder: string): string {
  const { node, server, cpu, cores, rounds, measurements } = results
  const head = `# Performance

Measured by \`npm run bench -- --write\`: ${server}, node ${node}, ${cores} x ${cpu}, ${rounds} rounds. Client and server share the
machine. Subjects take turns within each round, each in a process of its own; a figure is the median over the rounds, a ratio
that of the ratios within the rounds. \`npm run bench -- --compare\` fails when a ratio of Baton's is more than 10 % worse than
here.
`
  const parts = Object.entries(SUITES).flatMap(([suite, { title, text }]) => {
    const own = measurements.filter((each) => each.suite === suite)
    if (own.length === 0) return []
    return [`## ${title}\n\n${text}\n\n![${title}](${folder}/${pictureOf(suite)})\n\n${tableOf(own)}`]
  })
  return [head, ...parts].join('\n')
}

function tableOf(measurements: readonly Measurement[]): string {
  const rows = measurements.map((each) => {
    const { question, where, subject, figure, value, ratio, goal } = each
    const aim = goal === undefined ? '' : `${goal}${meets(each) ? '' : ', missed'}`
    return `| ${question} | ${where} | ${subject} | ${shown(value)} ${figure} | ${ratio.toFixed(2)} | ${aim} |`
  })
  return [
    '| question | on | subject | figure | ratio | goal |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

const shown = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
