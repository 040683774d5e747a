import { mkdir } from 'node:fs/promises'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KeyPair } from '../../auth/jwt.ts'
import type { DatabaseId, RemoteSqldOptions } from '../../backend/backend.ts'
import type { ServiceRequest } from '../../http/service-request.ts'
import { OnwardTokens, type SenderRights } from './onward-tokens.ts'
import { type SqldProcess, startAfter } from './process.ts'
import { connectSqld, type SqldTarget } from './remote.ts'

/** The server that requests go to. */
export interface UpstreamOptions {
  /** Where the server keeps its data. */
  readonly directory: string
  /** Whether everybody may do everything, without a token. */
  readonly isOpen: boolean
  /** Signs what is sent. */
  readonly controlKey: KeyPair
  /** The program; undefined to look for it. */
  readonly sqldPath: string | undefined
  /** A server that runs already, in place of one of our own. */
  readonly remote: RemoteSqldOptions | undefined
}

/** What the server's user knows and does. */
export interface UpstreamUser {
  /** The server has started, also where it has ended by itself before. */
  readonly onStart: () => void
  /** Those of the databases that the sender of a request for a database may attach which can be attached to it now. */
  readonly attachable: (to: DatabaseId, allowed: SenderRights['attach']) => readonly string[]
}

/** What of a client's request is made anew for the server. */
type OnwardRequest = Pick<ServiceRequest, 'method' | 'path' | 'query'> & {
  readonly signal?: AbortSignal
}

/** The request of a client that may do something with a database. */
export interface Call {
  readonly id: DatabaseId
  readonly request: OnwardRequest
  readonly rights: SenderRights
}

/**
 * How often a request is sent while the server denies a database that it has, and the delay between. It does so for a moment
 * after a change of the configuration has made it load the database again, and with more databases than it keeps open.
 */
const DENIED_ATTEMPTS = 100
const DENIED_STEP_MS = 20
/** How often a server is started again for one request. */
const MAX_REVIVALS = 10
/** How often a request is sent to a server that has just ended, and the wait between. */
const REFUSED_ATTEMPTS = 100
const RESTART_STEP_MS = 20
/** Codes of a connection that the server's end has broken. */
const BROKEN: ReadonlySet<string | undefined> = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE'])
/** Connections that are kept after a burst; each is a descriptor here and there. */
const MAX_IDLE_CONNECTIONS = 8
/** With an interval the server makes checkpoints at its end only, not at each COMMIT: 31 years. */
const NO_OWN_CHECKPOINTS = ['--checkpoint-interval-s', '1000000000']
const NEVER = new AbortController().signal

/** One libsql-server, with what is needed to send requests to it: it is started again when it has ended by itself. */
export class Upstream {
  readonly #options: UpstreamOptions
  readonly #user: UpstreamUser
  readonly #agent = new http.Agent({ keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS })
  readonly #tokens: OnwardTokens
  #process: SqldTarget | null = null
  /** The same, where it is ours. */
  #own: SqldProcess | null = null
  #reviving: Promise<unknown> | null = null
  #isClosed = false

  constructor(options: UpstreamOptions, user: UpstreamUser) {
    this.#options = options
    this.#user = user
    this.#tokens = new OnwardTokens(options.controlKey)
  }

  /** @returns what the program calls itself */
  async start(): Promise<string> {
    const { remote } = this.#options
    this.#process = remote === undefined ? await this.#startOwn() : await connectSqld(remote)
    this.#user.onStart()
    return this.#process.version
  }

  async #startOwn(): Promise<SqldTarget> {
    const { directory, controlKey, sqldPath } = this.#options
    await mkdir(directory, { recursive: true })
    this.#own = await startAfter(this.#own, {
      dataDirectory: directory,
      namespaces: true,
      ...(sqldPath !== undefined && { sqldPath }),
      publicKeyPem: controlKey.publicPem,
      serverArguments: NO_OWN_CHECKPOINTS,
    })
    return this.#own
  }

  get isRunning(): boolean {
    return this.#process?.isRunning === true
  }

  /** Whether the server answers at all. */
  async responds(withinMs: number): Promise<boolean> {
    const { host, port } = await this.alive()
    return await new Promise((resolve) => {
      const request = http.get({ host, port, path: '/health', timeout: withinMs, agent: false }, (answer) => {
        answer.resume()
        resolve(answer.statusCode === 200)
      })
      request.on('timeout', () => request.destroy(new Error('no answer')))
      request.on('error', () => resolve(false))
    })
  }

  /** Ends a server of ours the hard way, and starts it again. One elsewhere stays as it is. */
  async restart(): Promise<void> {
    const own = this.#own
    if (own === null) return
    await this.#revive(() => own.kill())
  }

  /** Everyone waits for a server that is started again, and no request goes to the one that is being ended. */
  async #revive(end: () => Promise<void>): Promise<void> {
    this.#reviving ??= end()
      .then(() => this.start())
      .finally(() => {
        this.#reviving = null
      })
    await this.#reviving
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#agent.destroy()
    await this.#process?.close()
  }

  /** The server, which is started again when it has gone away by itself, and again when it does not stay. */
  async alive(): Promise<SqldTarget> {
    for (let attempt = 0; attempt < MAX_REVIVALS; attempt += 1) {
      const process = this.#process
      const isWell = process === null || (process.isRunning && this.#reviving === null)
      if (isWell || this.#isClosed) break
      await this.#revive(() => process.close())
    }
    return this.#running
  }

  get #running(): SqldTarget {
    if (this.#process?.isRunning !== true) throw new Error('libsql-server is not running')
    return this.#process
  }

  /** Sends a request, again while the server denies a database that it has: nothing has been executed then. */
  async send(call: Call, body: Buffer | null): Promise<http.IncomingMessage> {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.#sendWhenThere(call, body)
      const mayRepeat =
        isDenial(answer, call.id) && attempt < DENIED_ATTEMPTS && !call.request.signal?.aborted
      if (!mayRepeat || !(await (await this.alive()).admin.exists(call.id))) return answer
      answer.resume()
      await sleep(DENIED_STEP_MS)
    }
  }

  /** A server that has ended by itself is waited for as long as nothing was sent to it; of a reader nothing can have changed. */
  async #sendWhenThere(call: Call, body: Buffer | null): Promise<http.IncomingMessage> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.sendOnce(call, body)
      } catch (error) {
        const isRefused = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
        const mayRepeat = isRefused ? attempt < REFUSED_ATTEMPTS : attempt === 1 && !call.rights.write
        const isOurs = this.#options.remote === undefined && !this.#isClosed
        if (!isOurs || !isBroken(error) || !mayRepeat || call.request.signal?.aborted === true) throw error
      }
      await sleep(RESTART_STEP_MS)
    }
  }

  /** One request to the server, made of what was understood of the client's; nothing of it is passed on as it came. */
  async sendOnce({ id, request, rights }: Call, body: Buffer | null): Promise<http.IncomingMessage> {
    const headers = {
      host: 'localhost',
      'x-namespace-bin': Buffer.from(id).toString('base64').replace(/=+$/, ''),
      ...this.#authorization(id, rights),
      ...(body !== null && { 'content-length': body.length }),
    }
    const { method, path, query, signal = NEVER } = request
    const { host, port } = await this.alive()
    return await new Promise((resolve, reject) => {
      const target = {
        host,
        port,
        agent: this.#agent,
        method,
        path: path + query,
        headers,
      }
      const onward = http.request({ ...target, signal }, resolve)
      onward.on('error', reject)
      onward.end(body ?? undefined)
    })
  }

  /** Nothing for a server elsewhere that takes no tokens. */
  #authorization(id: DatabaseId, rights: SenderRights): { authorization?: string } {
    const { isOpen, remote } = this.#options
    if (isOpen && remote !== undefined) return {}
    const attach = this.#user.attachable(id, rights.attach)
    const token = this.#tokens.tokenFor(id, { ...rights, attach })
    return { authorization: `Bearer ${token}` }
  }
}

/** Whether a response is the server's 404 for a database that it does not have. Its length tells, so that the body stays unread. */
function isDenial({ statusCode, headers }: http.IncomingMessage, id: DatabaseId): boolean {
  const text = JSON.stringify({ error: `Namespace \`${id}\` doesn't exist` })
  return statusCode === 404 && Number(headers['content-length']) === Buffer.byteLength(text)
}

/** Whether the server's end has broken a connection, or not taken it. */
export function isBroken(error: unknown): boolean {
  return BROKEN.has((error as NodeJS.ErrnoException).code)
}
