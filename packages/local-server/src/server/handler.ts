import { Readable } from 'node:stream'
import { ReplicaConditions } from '@batonsql/server-common/backend'
import { checkOptionNames } from '@batonsql/server-common/base'
import { toResponse } from '@batonsql/server-common/http'
import { DEFAULT_DATABASE } from './gateway.ts'
import type { DatabaseAddress } from './server.ts'
import { ServerLog } from './server-log.ts'
import {
  type DatabaseOptions,
  HOME_ORGANIZATION,
  type NewDatabaseOptions,
  Service,
  type TokenOptions,
} from './service.ts'

/** How {@link createHandler} makes the service. */
export interface LocalHandlerOptions {
  /** Where databases, names and the signing key are kept. By default a temporary directory, removed by `close()`. */
  readonly dataDirectory?: string
  /** Whether every database needs a token. @default false */
  readonly auth?: boolean
  /** Host names (without port) that stand for a database. @default {} */
  readonly domains?: Readonly<Record<string, string>>
  /** Origins of web pages that may use it, besides pages of this machine; as `https://app.example`. @default [] */
  readonly allowOrigins?: readonly string[]
}

const OPTION_NAMES = ['dataDirectory', 'auth', 'domains', 'allowOrigins'] as const
const ORIGIN = 'http://localhost'

/**
 * The service without a socket, over the embedded back end: a client is given `fetch: handler.fetch`. The engine is
 * started by the first call.
 */
export function createHandler(options: LocalHandlerOptions = {}): LocalHandler {
  checkOptionNames('createHandler', options, OPTION_NAMES)
  return new LocalHandler(options)
}

/** A service that is called instead of connected to. */
export class LocalHandler implements AsyncDisposable {
  readonly #options: LocalHandlerOptions
  #service: Promise<Service> | null = null
  #isClosed = false

  /** Made by {@link createHandler} only. */
  constructor(options: LocalHandlerOptions) {
    this.#options = options
  }

  /** Answers a request as the server would. Has the form of the global `fetch` and can be passed on by itself. */
  readonly fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const service = await this.#start()
    const request = input instanceof Request && init === undefined ? input : new Request(input, init)
    const url = new URL(request.url)
    const headers = Object.fromEntries(request.headers)
    const body = request.body === null ? Readable.from([]) : Readable.fromWeb(request.body)
    const { method, signal } = request
    const response = await service.handle({
      method,
      path: url.pathname,
      query: url.search,
      headers: { host: url.host, ...headers },
      body,
      remoteAddress: undefined,
      signal,
    })
    return toResponse(response, method === 'HEAD')
  }

  /** Creates a database; names are 1 to 64 of `a-z`, `0-9` and `-`. Rejects when the name is taken. */
  async createDatabase(name: string, options: NewDatabaseOptions = {}): Promise<DatabaseAddress> {
    const service = await this.#start()
    await service.createDatabase(name, options)
    const authToken = await service.ownerToken(name)
    const url = name === DEFAULT_DATABASE ? ORIGIN : `${ORIGIN}/${name}/`
    return { url, ...(authToken !== undefined && { authToken }) }
  }

  /** Changes the given settings of a database and leaves the others. */
  async updateDatabase(name: string, options: DatabaseOptions): Promise<void> {
    await (await this.#start()).updateDatabase(name, options)
  }

  /** Removes a database and its data; open streams of it are gone. */
  async removeDatabase(name: string): Promise<void> {
    await (await this.#start()).removeDatabase(name)
  }

  /** Makes a token for a database. Rejects on a handler without `auth`. */
  async createToken(name: string, options: TokenOptions = {}): Promise<string> {
    return await (await this.#start()).createToken(name, options)
  }

  /** Ends the engine. Requests in flight fail, and so does whatever is called afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true
    await (await this.#service)?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #start(): Promise<Service> {
    if (this.#isClosed) throw new Error('the handler is closed')
    const { dataDirectory, auth = false, domains = {}, allowOrigins = [] } = this.#options
    this.#service ??= Service.start({
      backend: 'embedded',
      dataDirectory,
      auth,
      dialect: null,
      sqldPath: undefined,
      sqld: undefined,
      replicas: [],
      conditions: new ReplicaConditions(),
      domains,
      allowOrigins,
      listenHost: 'localhost',
      organization: HOME_ORGANIZATION,
      domain: null,
      inspector: false,
      log: new ServerLog('none'),
    })
    return await this.#service
  }
}
