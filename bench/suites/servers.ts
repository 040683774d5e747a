import { type Measurement, toMeasurement } from '../lib/results.ts'

/**
 * Compares the embedded server with libsql-server, using the figures of the same client in the same rounds.
 * @param client the measurements of the suite `client`
 */
export function compareServers(client: readonly Measurement[]): Measurement[] {
  const findMeasurement = (environment: string, operation: string): Measurement | undefined =>
    client.find(
      (measurement) =>
        measurement.subject === 'baton' &&
        measurement.unit === 'µs' &&
        measurement.environment === environment &&
        measurement.operation === operation,
    )
  const operations = new Set(client.map(({ operation }) => operation))
  return [...operations].flatMap((operation) => {
    const embedded = findMeasurement('embedded', operation)
    const sqld = findMeasurement('libsql-server', operation)
    if (!embedded || !sqld) return []
    const labels = { suite: 'servers', operation, environment: 'both', unit: 'µs', baseline: 'libsql-server' }
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
