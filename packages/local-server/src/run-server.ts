/*
 * Main program of the server that all processes of a test run share. It ends with the process that has started it.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createHttpServer, getLocalUrl, listen, readBytes } from '@batonsql/server-common/http'
import { DatabasePool } from './testing/database-pool.ts'
import { OPERATIONS, type RunServerCall, type RunServerReply } from './testing/run-server.ts'

const HOST = '127.0.0.1'
/** The path of all calls; web pages and other users of this machine cannot guess it. */
const path = `/${randomUUID()}`
const pool = await DatabasePool.start()

async function run(request: IncomingMessage): Promise<RunServerReply> {
  try {
    const { operation, values } = JSON.parse((await readBytes(request)).toString('utf8')) as RunServerCall
    if (!OPERATIONS.includes(operation)) throw new Error(`unknown operation ${operation}`)
    const call = pool[operation] as (...values: readonly unknown[]) => Promise<unknown>
    return { result: await call.apply(pool, [...values]) }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.url !== path) return void response.writeHead(404).end()
  response.end(JSON.stringify(await run(request)))
}

const http = createHttpServer((request, response) => void respond(request, response))
await listen(http, 0, HOST)
const { port } = http.address() as { port: number }

process.once('disconnect', () => {
  http.close()
  http.closeAllConnections()
  void pool.close().finally(() => process.exit())
})
// ignores the signals that the runner also receives: it disconnects when it has ended
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {})
process.send?.(`${getLocalUrl(HOST, port)}${path}`)
