import { once } from 'node:events'
import { type Measurement, measured } from '../lib/results.ts'
import type { RunOperation, SubjectModule } from '../lib/subject.ts'
import type { Counted } from '../servers/far-away.ts'
import { openChild } from '../servers/open-servers.ts'
import { CLIENTS } from './client.ts'

const DELAY_MS = 25
const TASKS = [
  { name: 'select', title: 'SELECT', times: 1 },
  { name: 'transaction', title: 'transaction of three, awaited', times: 1 },
  { name: 'transactionAtOnce', title: 'transaction of five at once', times: 1 },
  { name: 'batch10', title: 'batch of 10', times: 1 },
  { name: 'select', title: '100 SELECTs at once', times: 100 },
] as const

/** Measures the time over a network with 25 ms latency, and the traffic, of each client. */
export async function measureDistance(url: string, rounds: number): Promise<Measurement[]> {
  await using proxy = await openChild('far-away', url, String(DELAY_MS))
  const subjects = await Promise.all(
    Object.entries(CLIENTS).map(async ([name, file]) => {
      const { open } = (await import(`../subjects/${file}.ts`)) as SubjectModule
      return { name, subject: await open(proxy.url, '') }
    }),
  )
  const count = async (): Promise<Counted> => {
    proxy.process.send('count')
    const [counted] = (await once(proxy.process, 'message')) as [Counted]
    return counted
  }
  const measurements: Measurement[] = []
  for (const { name: operation, title, times } of TASKS) {
    const supported = subjects.filter(({ subject }) => subject.operations[operation])
    const samples = new Map(
      supported.map((each) => [each.name, { ms: [] as number[], counted: null as Counted | null }]),
    )
    for (let round = -1; round < rounds; round++) {
      for (const { name, subject } of supported) {
        await subject.operations[operation]?.(0)
        await count()
        const started = performance.now()
        const run = subject.operations[operation] as RunOperation
        await Promise.all(Array.from({ length: times }, (_, at) => run(at)))
        const ms = performance.now() - started
        const sample = samples.get(name)
        if (sample && round >= 0) sample.ms.push(ms)
        if (sample) sample.counted = await count()
      }
    }
    const floor = samples.get('undici')
    for (const [subject, { ms, counted }] of samples) {
      const about = { question: title, where: 'libsql-server', subject, base: 'undici' }
      measurements.push(measured({ suite: 'distance', ...about, figure: 'ms' }, ms, floor?.ms ?? ms))
      const kinds = { requests: 'requests', bytesOut: 'bytes sent', bytesIn: 'bytes received' } as const
      for (const [kind, figure] of Object.entries(kinds) as [keyof Counted, string][]) {
        const value = counted?.[kind] ?? Number.NaN
        measurements.push(
          measured({ suite: 'wire', ...about, figure }, [value], [floor?.counted?.[kind] ?? value]),
        )
      }
    }
  }
  for (const { subject } of subjects) await subject.close()
  return measurements
}
