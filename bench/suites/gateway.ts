import { type Measurement, toMeasurement } from '../lib/results.ts'
import { ROW_COUNT } from '../lib/subject.ts'
import { type Comparison, type Operation, takeTurns } from '../lib/turns.ts'

const OPERATIONS: readonly Operation[] = [
  { name: 'select', title: 'SELECT, one by one', count: 400 },
  { name: 'select', title: 'SELECT, 64 in flight', count: 2_000, inFlight: 64 },
  { name: 'transaction', title: 'transaction of three awaited statements', count: 200 },
  { name: 'batch100', title: 'batch of 100', count: 30 },
  { name: 'rows', title: '10,000 rows of six columns, per row', count: 10, itemCount: ROW_COUNT },
  { name: 'cursor', title: 'cursor of 50 MB', count: 1 },
]
/** V8 needs several thousand requests to optimize the code; a server in production runs optimized code nearly all the time. */
const WARM_UP_MS = 5_000
const GOALS: Readonly<Record<string, string>> = { µs: '>= 0.87', 'server CPU µs': '<= 1.15' }

/** Measures the overhead of the gateway, compared with the minimum that a proxy adds to libsql-server. */
export async function measureGateway(servers: Comparison['servers'], rounds: number): Promise<Measurement[]> {
  const subjects = { undici: 'client/undici' }
  const measurements = await takeTurns({
    suite: 'gateway',
    subjects,
    servers,
    operations: OPERATIONS,
    rounds,
    warmUpMs: WARM_UP_MS,
  })
  return measurements
    .filter(({ unit }) => unit !== 'client CPU µs')
    .map((measurement) => {
      const { operation, environment, unit, value } = measurement
      const proxy = measurements.find(
        (candidate) =>
          candidate.environment === 'minimal proxy' &&
          candidate.operation === operation &&
          candidate.unit === unit,
      )
      if (proxy === undefined) throw new Error('the minimal proxy was not measured')
      const goal = environment === 'gateway' ? GOALS[unit] : undefined
      const labels = {
        suite: 'gateway',
        operation,
        environment: 'libsql-server',
        subject: environment,
        unit,
        baseline: 'minimal proxy',
        goal,
      }
      return toMeasurement(labels, [value], [proxy.value])
    })
}
