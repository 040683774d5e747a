import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cleanEnvironment, type RunOptions } from './run.ts'

/** A server that was started by a command. */
export interface ServerProcess {
  readonly url: string
  /** Sends Ctrl-C, waits until all of its processes have exited, and returns its stderr without npm's warnings. */
  interrupt(): Promise<string>
}

/** The line that a command prints when it is ready. */
const READY_LINE = /^database: (\S+)$/m

/** Runs a command that serves requests until it is interrupted. @throws Error if it exits before it prints its address */
export async function serve(
  command: readonly string[],
  { cwd, env = {} }: RunOptions,
  ready = READY_LINE,
): Promise<ServerProcess> {
  const [program, ...args] = command as [string, ...string[]]
  // in its own process group: a terminal sends Ctrl-C to npx and to the command it runs
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
      // it has exited
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
  throw new Error(`${command.join(' ')} exited: ${output}${errors}`)
}
