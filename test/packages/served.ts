import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cleanEnvironment, type RunOptions } from './run.ts'

/** A server that was started by a command. */
export interface Served {
  readonly url: string
  /** Presses Ctrl-C, waits until everything of it has ended, and gives what it said of errors, npm's warnings left out. */
  interrupt(): Promise<string>
}

/** What a command prints when it is ready. */
const READY = /^database: (\S+)$/m

/** Runs a command that serves something until it is interrupted. @throws when it ends before it says where */
export async function serve(
  command: readonly string[],
  { cwd, env = {} }: RunOptions,
  ready = READY,
): Promise<Served> {
  const [program, ...args] = command as [string, ...string[]]
  // in a group of its own: a terminal gives Ctrl-C to npx and to what it runs
  const child = spawn(program, args, {
    cwd,
    env: cleanEnvironment(env),
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const closed = once(child, 'close')
  const interrupt = async (): Promise<string> => {
    try {
      process.kill(-(child.pid as number), 'SIGINT')
    } catch {
      // it has ended
    }
    await closed
    return errors.replaceAll(/^npm warn .*\n/gm, '')
  }
  let output = ''
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    output += chunk.toString()
    const url = ready.exec(output)?.[1]
    if (url !== undefined) {
      child.stdout.resume()
      return { url, interrupt }
    }
  }
  throw new Error(`${command.join(' ')} ended: ${output}${errors}`)
}
