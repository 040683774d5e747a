import { type Measurement, measured } from '../lib/results.ts'

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
    return [
      measured({ ...about, subject: 'libsql-server' }, [sqld.value], [sqld.value]),
      measured(
        { ...about, subject: 'baton: embedded server', goal: '>= 1.00' },
        [embedded.value],
        [sqld.value],
      ),
    ]
  })
}
