import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type Measurement, toMeasurement } from '../lib/results.ts'

/** Memory and time to read all rows of a long result. */
export interface MemoryFigures {
  readonly rows: number
  readonly peakMiB: number
  readonly ms: number
}

const ROW_COUNTS = [250_000, 1_000_000] as const

/** Measures the memory and time to read a million rows with a cursor. The memory must not depend on the number of rows. */
export async function measureMemory(url: string, environment: string): Promise<Measurement[]> {
  const figures: MemoryFigures[] = []
  for (const rows of ROW_COUNTS) {
    const child = fork(new URL('read-rows-process.ts', import.meta.url), [url, String(rows)], {
      execArgv: ['--conditions=@batonsql/source', '--expose-gc', '--no-warnings'],
    })
    const [childFigures] = (await once(child, 'message')) as [MemoryFigures]
    await once(child, 'exit')
    figures.push(childFigures)
  }
  const [few, many] = figures as [MemoryFigures, MemoryFigures]
  const operation = `${ROW_COUNTS[1].toLocaleString('en')} rows with a cursor`
  const labels = { suite: 'memory', operation, environment, subject: 'baton' }
  return [
    toMeasurement(
      {
        ...labels,
        unit: 'peak MiB',
        baseline: `${ROW_COUNTS[0].toLocaleString('en')} rows`,
        goal: '<= 1.50',
      },
      [many.peakMiB],
      [few.peakMiB],
    ),
    toMeasurement(
      { ...labels, unit: 'client µs per row', baseline: `${ROW_COUNTS[0].toLocaleString('en')} rows` },
      [(many.ms * 1_000) / many.rows],
      [(few.ms * 1_000) / few.rows],
    ),
  ]
}
