import { once } from 'node:events'
import { mkdirSync, readlinkSync, rmdirSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { dirname } from 'node:path'
import { json } from 'node:stream/consumers'
import type { LocalServer } from '@batonsql/local-server'
import { findRuntimeDirectory, getLinkPath, getSocketPath } from './socket-path.ts'

/** The methods of a running server that commands call. */
const METHODS = [
  'createDatabase',
  'createSnapshot',
  'deleteDatabase',
  'deleteSnapshot',
  'exportDatabase',
  'listSnapshots',
  'restoreSnapshot',
] as const
type Method = (typeof METHODS)[number]
type MethodCall = {
  readonly [M in Method]: { readonly method: M; readonly args: Parameters<LocalServer[M]> }
}

/** A call of a method of a running server, or a request for its databases. */
export type ControlRequest = MethodCall[Method] | { readonly method: 'list' }

/** A database in the response to `list`. */
export interface ListedDatabase {
  readonly name: string
  readonly url: string
}

/**
 * Receives commands for a running server on a socket in its data directory, until it is disposed of. Only the owner of the server can
 * open the socket, and web pages cannot reach it.
 * @throws Error if the system or the file system does not support it; nothing is left behind
 */
export async function openControlSocket(server: LocalServer): Promise<AsyncDisposable> {
  const target = server.dataDirectory
  mkdirSync(findRuntimeDirectory(process.env), { recursive: true, mode: 0o700 })
  // checked again, because another user may have created it meanwhile
  const link = getLinkPath(findRuntimeDirectory(process.env), server.port)
  // left by a killed server, if they exist: this one holds the port and the lock of the directory
  rmSync(link, { force: true })
  symlinkSync(target, link)
  const path = getSocketPath(link)
  rmSync(path, { force: true })
  const http = createServer((request, response) => void respond(server, request, response))
  const listening = once(http, 'listening')
  // `listen` creates the socket synchronously, so that it has these permissions from the beginning
  const umask = process.umask(0o177)
  http.listen(path)
  process.umask(umask)
  await listening.catch((error: unknown) => {
    removeLink(link, target)
    throw error
  })
  // a connection that cannot be accepted, for example because too many files are open, fails only for its client
  http.on('error', () => {})
  return {
    async [Symbol.asyncDispose]() {
      const closed = once(http, 'close')
      http.close()
      http.closeAllConnections()
      await closed
      removeLink(link, target)
    },
  }
}

/** Removes the link to a data directory, and the folder of the links unless other servers use it. */
function removeLink(link: string, target: string): void {
  try {
    // another server may have taken the port
    if (readlinkSync(link) === target) rmSync(link)
    rmdirSync(dirname(link))
  } catch {
    // already removed, or used by other servers
  }
}

async function respond(
  server: LocalServer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body: { readonly result: unknown } | { readonly error: string }
  try {
    body = { result: await run(server, (await json(request)) as ControlRequest) }
  } catch (error) {
    body = { error: (error as Error).message }
  }
  response.end(JSON.stringify(body))
}

async function run(server: LocalServer, request: ControlRequest): Promise<unknown> {
  if (request.method === 'list')
    return server.databaseNames.map((name): ListedDatabase => ({ name, url: server.urlOf(name) }))
  const { method, args } = request
  // a method of a newer `baton`
  if (!METHODS.includes(method)) throw new Error(`this server does not have the command ${method as string}`)
  return await (server[method] as (...values: readonly unknown[]) => unknown).apply(server, args)
}
