// One subject in a process of its own; the parent says what to do and when, so that subjects take turns.
import type { Subject } from './subjects/subject.ts'

export interface Task {
  readonly question: 'sequential' | 'concurrent' | 'transaction' | 'rows'
  readonly count: number
}

export interface Figures {
  readonly wallMs: number
  readonly cpuMs: number
}

const IN_FLIGHT = 64

async function perform(subject: Subject, { question, count }: Task): Promise<void> {
  if (question === 'concurrent') {
    let next = 0
    const lane = async (): Promise<void> => {
      for (let at = next++; at < count; at = next++) await subject.select((at % 1000) + 1)
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
    return
  }
  for (let at = 0; at < count; at++) {
    if (question === 'sequential') await subject.select((at % 1000) + 1)
    else if (question === 'transaction') await subject.transaction((at % 1000) + 1)
    else if ((await subject.rows()) !== 10_000) throw new Error('not all rows came')
  }
}

const [name, url] = process.argv.slice(2) as [string, string]
const { open } = (await import(`./subjects/${name}.ts`)) as { open: (url: string) => Subject }
const subject = open(url)

process.on('message', (task: Task | 'close') => {
  if (task === 'close') {
    void subject.close().finally(() => process.disconnect())
    return
  }
  void (async () => {
    // not timed, and may fail: @tursodatabase/serverless keeps a stream, whose first query after 10 idle seconds is lost
    await subject.select(1).catch(() => {})
    // for rows only: it also throws away compiled code, which short questions would then measure
    if (task.question === 'rows') globalThis.gc?.()
    const cpu = process.cpuUsage()
    const started = performance.now()
    await perform(subject, task)
    const wallMs = performance.now() - started
    const { user, system } = process.cpuUsage(cpu)
    process.send?.({ wallMs, cpuMs: (user + system) / 1000 } satisfies Figures)
  })().catch((error: unknown) => {
    process.send?.({ error: String(error) })
  })
})
process.send?.('ready')
