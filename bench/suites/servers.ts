import { type Measurement, toMeasurement } from '../lib/results.ts'

/**
 * Compares the embedded server with libsql-server: figures of the same client on each, in the same rounds.
 * @param client the measurements of the suite `client`
 */
export function compareServers(client: readonly Measurement[]): Measurement[] {
  const findMeasurement = (where: string, question: string): Measurement | undefined =>
    client.find(
      (measurement) =>
        measurement.subject === 'baton' &&
        measurement.figure === 'µs' &&
        measurement.where === where &&
        measurement.question === question,
    )
  const operations = new Set(client.map(({ question }) => question))
  return [...operations].flatMap((question) => {
    const embedded = findMeasurement('embedded', question)
    const sqld = findMeasurement('libsql-server', question)
    if (!embedded || !sqld) return []
    const labels = { suite: 'servers', question, where: 'both', figure: 'µs', base: 'libsql-server' }
    return [
      toMeasurement({ ...labels, subject: 'libsql-server' }, [sqld.value], [sqld.value]),
      toMeasurement(
        { ...labels, subject: 'baton: embedded server', goal: '>= 1.00' },
        [embedded.value],
        [sqld.value],
      ),
    ]
  })
}
