import { once } from 'node:events'
import { type Measurement, toMeasurement } from '../lib/results.ts'
import type { RunOperation, SubjectModule } from '../lib/subject.ts'
import type { Traffic } from '../servers/far-away.ts'
import { openChild } from '../servers/open-servers.ts'
import { CLIENTS } from './client.ts'

const DELAY_MS = 25
const TASKS = [
  { name: 'select', title: 'SELECT', times: 1 },
  { name: 'transaction', title: 'transaction of three awaited statements', times: 1 },
  { name: 'transactionAtOnce', title: 'transaction of five statements at once', times: 1 },
  { name: 'batch10', title: 'batch of 10', times: 1 },
  { name: 'select', title: '100 SELECTs at once', times: 100 },
] as const

/** Measures the traffic of each client, and its time over a network with a latency of 25 ms. */
export async function measureDistance(url: string, rounds: number): Promise<Measurement[]> {
  await using proxy = await openChild('far-away', url, String(DELAY_MS))
  const subjects = await Promise.all(
    Object.entries(CLIENTS).map(async ([name, file]) => {
      const { open } = (await import(`../subjects/${file}.ts`)) as SubjectModule
      return { name, subject: await open(proxy.url, '') }
    }),
  )
  const takeTraffic = async (): Promise<Traffic> => {
    proxy.process.send('count')
    const [traffic] = (await once(proxy.process, 'message')) as [Traffic]
    return traffic
  }
  const measurements: Measurement[] = []
  for (const { name: operation, title, times } of TASKS) {
    const supported = subjects.filter(({ subject }) => subject.operations[operation])
    const samples = new Map(
      supported.map(({ name }) => [name, { ms: [] as number[], traffic: null as Traffic | null }]),
    )
    for (let round = -1; round < rounds; round++) {
      for (const { name, subject } of supported) {
        await subject.operations[operation]?.(0)
        await takeTraffic()
        const started = performance.now()
        const run = subject.operations[operation] as RunOperation
        await Promise.all(Array.from({ length: times }, (_, index) => run(index)))
        const ms = performance.now() - started
        const sample = samples.get(name)
        if (sample && round >= 0) sample.ms.push(ms)
        if (sample) sample.traffic = await takeTraffic()
      }
    }
    const baseSample = samples.get('undici')
    for (const [subject, { ms, traffic }] of samples) {
      const labels = { operation: title, environment: 'libsql-server', subject, baseline: 'undici' }
      measurements.push(toMeasurement({ suite: 'distance', ...labels, unit: 'ms' }, ms, baseSample?.ms ?? ms))
      const kinds = { requests: 'requests', bytesOut: 'bytes sent', bytesIn: 'bytes received' } as const
      for (const [kind, unit] of Object.entries(kinds) as [keyof Traffic, string][]) {
        const value = traffic?.[kind] ?? Number.NaN
        measurements.push(
          toMeasurement(
            { suite: 'distance', ...labels, unit },
            [value],
            [baseSample?.traffic?.[kind] ?? value],
          ),
        )
      }
    }
  }
  for (const { subject } of subjects) await subject.close()
  return measurements
}
