// One subject in a separate process. The parent process controls it, so that subjects take turns.
import type { SubjectModule } from './subject.ts'

export interface Task {
  readonly operation: string
  readonly count: number
  readonly inFlight: number
}

/** Wall time and the process's CPU time for the whole task, in ms. */
export interface Figures {
  readonly wallMs: number
  readonly cpuMs: number
}

const [file, url, token] = process.argv.slice(2) as [string, string, string]
const { open } = (await import(`../subjects/${file}.ts`)) as SubjectModule
const subject = await open(url, token)
let performed = 0

async function perform({ operation, count, inFlight }: Task): Promise<void> {
  const run = subject.operations[operation]
  if (!run) throw new Error(`${file} has no ${operation}`)
  let remaining = count
  const worker = async (): Promise<void> => {
    while (remaining-- > 0) await run(performed++)
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
}

process.on('message', (task: Task | 'close') => {
  if (task === 'close') {
    void subject.close().finally(() => process.disconnect())
    return
  }
  void (async () => {
    // not timed, and may fail: @tursodatabase/serverless keeps a stream open, and the first query after 10 idle seconds is lost
    await subject.operations[task.operation]?.(performed++).catch(() => {})
    // no forced garbage collection before the measurement, because it discards compiled code, which would have to be
    // recompiled
    const cpu = process.cpuUsage()
    const started = performance.now()
    await perform(task)
    const wallMs = performance.now() - started
    const { user, system } = process.cpuUsage(cpu)
    process.send?.({ wallMs, cpuMs: (user + system) / 1000 } satisfies Figures)
  })().catch((error: unknown) => {
    process.send?.({ error: String(error) })
  })
})
process.send?.(Object.keys(subject.operations).filter((name) => subject.operations[name]))
