import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { CommandContext } from './command-context.ts'

/** Length of the end of a captured output that is kept, in characters. */
const MAX_CAPTURED_LENGTH = 16_384

/** How a program of the user ended. */
export interface ProgramResult {
  /** Its exit code, or the name of the signal that ended it. */
  readonly exit: number | string
  /** The end of what it wrote to stdout and stderr; empty unless it was captured. */
  readonly output: string
}

export interface ProgramOptions {
  /** Variables that it gets in addition to those of this process. */
  readonly env: Readonly<Record<string, string>>
  /** Where its output goes. */
  readonly output: 'inherited' | 'to stderr' | 'captured'
}

const runningPrograms = new Set<ChildProcess>()
// the third Ctrl-C ends this process without waiting for its programs
process.once('exit', () => {
  for (const child of runningPrograms) endGroup(child, 'SIGKILL')
})

/**
 * Runs a program of the user, with all the programs that it starts in a process group, which an interruption ends.
 * @throws the signal's reason after an interruption; Error if the program does not exist
 */
export async function runProgram(
  [program = '', ...args]: readonly string[],
  { env, output }: ProgramOptions,
  { env: ownEnv, signal }: CommandContext,
): Promise<ProgramResult> {
  signal.throwIfAborted()
  const isCaptured = output === 'captured'
  const child = spawn(program, args, {
    env: { ...ownEnv, ...env },
    stdio: isCaptured
      ? ['ignore', 'pipe', 'pipe']
      : ['inherit', output === 'to stderr' ? 2 : 'inherit', 'inherit'],
    // in a process group of its own, because npx and npm do not end the programs that they have started
    detached: process.platform !== 'win32',
  })
  let captured = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (part: string) => {
      captured = (captured + part).slice(-MAX_CAPTURED_LENGTH)
    })
  const stop = (): void => endGroup(child, 'SIGTERM')
  runningPrograms.add(child)
  signal.addEventListener('abort', stop, { once: true })
  try {
    const [code, endSignal] = (await once(child, isCaptured ? 'close' : 'exit')) as [
      number | null,
      string | null,
    ]
    signal.throwIfAborted()
    return { exit: code ?? String(endSignal), output: captured }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new Error(`${program} was not found`, { cause: error })
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
    runningPrograms.delete(child)
  }
}

/** Sends a signal to a program and to all programs that it has started. On Windows, ends only the program. */
function endGroup(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    if (child.pid === undefined || process.platform === 'win32') child.kill()
    else process.kill(-child.pid, signal)
  } catch {
    // all of its processes have ended
  }
}
