import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const PROGRAM = fileURLToPath(new URL('sqlite-session.ts', import.meta.url))

/** Starts SQLite in another process, which responds to each line with one line. */
export function startOtherProgram(path: string): {
  run(line: string): Promise<string>
  kill(): Promise<void>
} {
  const flags = ['--disable-warning=ExperimentalWarning', PROGRAM, path]
  const child = spawn(process.execPath, flags, { stdio: ['pipe', 'pipe', 'inherit'] })
  const whenExited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await whenExited
  }
  onTestFinished(kill)
  return {
    async run(line) {
      child.stdin.write(`${line}\n`)
      return String((await lines.next()).value)
    },
    kill,
  }
}
