import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { RUN_SERVER } from './testing/run-server.ts'

let server: ChildProcess | null = null

/** Where a start is found, also from another instance of this module: a runner may load it once for each project. */
const START = Symbol.for('@batonsql/local-server: start of the test server')
const shared = globalThis as { [START]?: Promise<void> | undefined }

/**
 * Starts a server that all test files of a run share; `useDatabase` finds it. Called by vitest if its option `globalSetup` names this
 * module, or by the global set-up of another runner.
 */
export async function setup(): Promise<void> {
  // another project of the same run has started one, or is starting it
  if (process.env[RUN_SERVER] === undefined)
    await (shared[START] ??= start().finally(() => delete shared[START]))
}

async function start(): Promise<void> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const program = fileURLToPath(new URL(`run-server.${extension}`, import.meta.url))
  // does not inherit flags of the runner, such as a debugger's port
  const child = fork(program, [], { execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  process.env[RUN_SERVER] = await new Promise<string>((resolve, reject) => {
    child.once('message', (url: string) => resolve(url))
    child.once('exit', (code) =>
      reject(new Error(`the test server could not be started: it exited with code ${code}`)),
    )
  })
  server = child
}

/** Stops the server that `setup` has started, if any. */
export async function teardown(): Promise<void> {
  // a failed start has left no server
  await shared[START]?.catch(() => {})
  if (server === null) return
  const isRunning = server.exitCode === null && server.signalCode === null
  const exited = isRunning ? once(server, 'exit') : null
  if (server.connected) server.disconnect()
  server = null
  delete process.env[RUN_SERVER]
  await exited
}
