import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { RUN_SERVER } from './testing/run-server.ts'

/**
 * Starts a server that all test files of a run share; `useDatabase` finds it. For `globalSetup` of vitest and for the global setup of
 * other runners.
 * @returns a function that stops the server
 */
export default async function setup(): Promise<() => Promise<void>> {
  // of another project of the same run
  if (process.env[RUN_SERVER] !== undefined) return async () => {}
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const program = fileURLToPath(new URL(`run-server.${extension}`, import.meta.url))
  const server = fork(program, [], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const exited = once(server, 'exit')
  process.env[RUN_SERVER] = await new Promise<string>((resolve, reject) => {
    server.once('message', (url: string) => resolve(url))
    server.once('exit', (code) =>
      reject(new Error(`the test server could not be started: it exited with code ${code}`)),
    )
  })
  return async () => {
    delete process.env[RUN_SERVER]
    if (server.connected) server.disconnect()
    await exited
  }
}
