import { type Measurement, measured } from '../lib/results.ts'

const COMPARABLE = /^(SELECT|INSERT|transaction of three|10,000 rows)/

/**
 * Compares the embedded server with libsql-server: figures of the same client on each, in the same rounds.
 * @param client the measurements of the suite `client`
 */
export function compareServers(client: readonly Measurement[]): Measurement[] {
  const of = (where: string, question: string): Measurement | undefined =>
    client.find(
      (each) =>
        each.subject === 'baton' &&
        each.figure === 'µs' &&
        each.where === where &&
        each.question === question,
    )
  const operations = new Set(client.map(({ question }) => question))
  return [...operations].flatMap((question) => {
    const embedded = of('embedded', question)
    const sqld = of('libsql-server', question)
    if (!embedded || !sqld) return []
    const about = { suite: 'servers', question, where: 'both', figure: 'µs', base: 'libsql-server' }
    const goal = COMPARABLE.test(question) ? '>= 1.00' : undefined
    return [
      measured({ ...about, subject: 'libsql-server' }, [sqld.value], [sqld.value]),
      measured({ ...about, subject: 'baton: embedded server', goal }, [embedded.value], [sqld.value]),
    ]
  })
}
