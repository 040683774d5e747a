import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** Time to wait for a signal to take effect, where the state of a process cannot be read. */
const SIGNAL_DELAY_MS = 500

/** Stops a process until it receives SIGCONT. Waits until all of its threads have stopped, because they may continue briefly. */
export async function freezeProcess(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  // on other platforms, an external program would be needed to read the state
  if (process.platform !== 'linux') return await sleep(SIGNAL_DELAY_MS)
  const deadline = performance.now() + 10_000
  while (!(await isStopped(pid))) {
    if (performance.now() > deadline) throw new Error(`process ${pid} is still running 10 s after SIGSTOP`)
    await sleep(1)
  }
}

async function isStopped(pid: number): Promise<boolean> {
  const threads = await readdir(`/proc/${pid}/task`)
  const states = threads.map(async (thread) => {
    // "PID (NAME) STATE …"; a name may have parentheses
    const line = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8')
    return line.slice(line.lastIndexOf(')') + 2, line.lastIndexOf(')') + 3)
  })
  return (await Promise.all(states)).every((state) => state === 'T')
}
