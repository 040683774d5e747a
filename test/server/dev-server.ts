import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const CLI = fileURLToPath(new URL('../../packages/cli/src/cli.ts', import.meta.url))

/** A server in a separate process that can be killed. */
export interface DevServer {
  readonly child: ChildProcess
  readonly url: string
}

/** Starts `baton dev` with the given data directory. */
export async function startDevServer(dataDirectory: string, backend = 'embedded'): Promise<DevServer> {
  const args = ['--conditions=@batonsql/source', '--disable-warning=ExperimentalWarning', CLI]
  args.push('dev', '--data', dataDirectory, '--port', '0', '--backend', backend)
  const { NODE_OPTIONS: _, ...env } = process.env
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env })
  let output = ''
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    output += chunk.toString()
    const url = /^database: (\S+)$/m.exec(output)?.[1]
    if (url !== undefined) return { child, url }
  }
  throw new Error(`the server did not start: ${output}`)
}

/** Kills the server, as in a crash. Can be called repeatedly. */
export async function killServer({ child }: DevServer): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}
