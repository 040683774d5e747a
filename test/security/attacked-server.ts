import type { KeyObject } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LocalServer, type LocalServerOptions, startLocalServer } from '@batonsql/local-server'
import { createGroupKey } from '../server/group-key.ts'
import { closeOnError } from '../support/close-on-error.ts'
import { hasSqld } from '../support/has-sqld.ts'

/** A kind of server to attack. */
export interface ServerKind {
  readonly backend: 'embedded' | 'sqld'
  readonly auth: boolean
}

export const BACKENDS: readonly ServerKind['backend'][] = hasSqld ? ['embedded', 'sqld'] : ['embedded']

/** Each back end, with tokens and without. */
export const KINDS: readonly ServerKind[] = BACKENDS.flatMap((backend) => [
  { backend, auth: false },
  { backend, auth: true },
])

/** A server with the databases `app` and `other`, in a temporary directory. */
export class AttackedServer implements AsyncDisposable {
  readonly server: LocalServer
  /** A directory in which an attack may try to create files. */
  readonly directory: string
  /** Signs tokens for every database. */
  readonly key: KeyObject
  readonly #auth: boolean

  private constructor(server: LocalServer, directory: string, auth: boolean, key: KeyObject) {
    this.key = key
    this.server = server
    this.directory = directory
    this.#auth = auth
  }

  static async start(kind: ServerKind, options: LocalServerOptions = {}): Promise<AttackedServer> {
    const directory = await mkdtemp(join(tmpdir(), 'baton-attack-'))
    const key = await createGroupKey(join(directory, 'data'))
    const server = await startLocalServer({ ...kind, dataDirectory: join(directory, 'data'), ...options })
    await closeOnError(server, async () => {
      await server.createDatabase('app')
      await server.createDatabase('other')
    })
    return new AttackedServer(server, directory, kind.auth, key)
  }

  url(name = 'app'): string {
    return `${this.server.url}/${name}`
  }

  /** Returns the headers of a caller with access to a database. */
  async headers(name = 'app', authorization: 'full-access' | 'read-only' = 'full-access') {
    if (!this.#auth) return {}
    return { authorization: `Bearer ${await this.server.createToken(name, { authorization })}` }
  }

  /** Sends a POST exactly as specified. */
  async post(
    path: string,
    body: string | object,
    headers: Record<string, string> = {},
  ): Promise<TestResponse> {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const response = await fetch(this.server.url + path, { method: 'POST', body: text, headers })
    return { status: response.status, text: await response.text() }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close()
    await rm(this.directory, { recursive: true, force: true })
  }
}

export interface TestResponse {
  readonly status: number
  readonly text: string
}

/** Returns the baton in the response of a pipeline or a cursor. */
export function batonOf({ text }: TestResponse): string {
  const baton = /^\{"baton":"([^"]+)"/.exec(text)?.[1]
  if (baton === undefined) throw new Error(`no baton: ${text.slice(0, 200)}`)
  return baton
}
