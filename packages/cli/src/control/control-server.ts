import { mkdirSync, readlinkSync, rmdirSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { dirname } from 'node:path'
import { json } from 'node:stream/consumers'
import type { LocalServer } from '@batonsql/local-server'
import { findRuntimeDirectory, getLinkPath, getSocketPath } from './socket-path.ts'

/** A command that inspects or changes a running server. */
export type ControlRequest =
  | { readonly command: 'list' }
  | {
      readonly command: 'create'
      readonly name: string
      readonly fromFile?: string | undefined
      readonly fromDatabase?: string | undefined
      readonly fromSnapshot?: string | undefined
      readonly group?: string | undefined
    }
  | { readonly command: 'delete'; readonly name: string }
  | { readonly command: 'create-snapshot'; readonly database: string; readonly name?: string | undefined }
  | { readonly command: 'list-snapshots'; readonly database: string }
  | { readonly command: 'restore-snapshot'; readonly database: string; readonly name: string }
  | { readonly command: 'delete-snapshot'; readonly database: string; readonly name: string }
  | { readonly command: 'export'; readonly name: string; readonly file: string }

/** A database in a response. */
export interface ControlledDatabase {
  readonly name: string
  readonly url: string
  /** A new token, in the response to `create` and `restore-snapshot`, if the server requires tokens. */
  readonly authToken?: string
}

/**
 * Receives commands for a running server on a socket in its data directory. Only the owner of the server can open the socket, and
 * web pages cannot reach it.
 */
export class ControlServer implements AsyncDisposable {
  readonly #http: Server
  readonly #link: string
  readonly #target: string

  private constructor(http: Server, link: string, target: string) {
    this.#http = http
    this.#link = link
    this.#target = target
  }

  /** Opens the socket. @throws Error if the system or the file system does not support it; nothing is left behind */
  static async open(server: LocalServer): Promise<ControlServer> {
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
    const listening = new Promise<void>((resolve, reject) => {
      http.once('error', reject)
      // `listen` creates the socket synchronously, so that it has these permissions from the beginning
      const umask = process.umask(0o177)
      http.listen(path, resolve)
      process.umask(umask)
    })
    await listening.catch((error: unknown) => {
      removeLink(link, target)
      throw error
    })
    return new ControlServer(http, link, target)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#http.close(resolve))
    this.#http.closeAllConnections()
    await closed
    removeLink(this.#link, this.#target)
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
  switch (request.command) {
    case 'list':
      return server.databaseNames.map((name): ControlledDatabase => ({ name, url: server.urlOf(name) }))
    case 'create': {
      const { name, fromFile, fromDatabase, fromSnapshot, group } = request
      const address = await server.createDatabase(name, {
        ...(fromFile !== undefined && { fromFile }),
        ...(fromDatabase !== undefined && { fromDatabase }),
        ...(fromSnapshot !== undefined && { fromSnapshot }),
        ...(group !== undefined && { group }),
      })
      return { name, ...address } satisfies ControlledDatabase
    }
    case 'create-snapshot':
      return await server.createSnapshot(request.database, request.name)
    case 'list-snapshots':
      return server.listSnapshots(request.database)
    case 'restore-snapshot':
      return { name: request.database, ...(await server.restoreSnapshot(request.database, request.name)) }
    case 'delete-snapshot':
      await server.deleteSnapshot(request.database, request.name)
      return null
    case 'delete':
      await server.deleteDatabase(request.name)
      return null
    case 'export':
      await server.exportDatabase(request.name, request.file)
      return null
    default:
      // a command of a newer `baton`
      throw new Error(
        `this server does not have the command ${(request satisfies never as ControlRequest).command}`,
      )
  }
}
