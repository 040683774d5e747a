import { checkOptions, NON_EMPTY, PLAIN_OBJECT, type RulesOf, STRINGS } from '@batonsql/options'
import { fromRequest, toResponse } from '@batonsql/server-common/http'
import { DEFAULT_DATABASE } from './resolve-address.ts'
import type { DatabaseAddress } from './server.ts'
import { ServerLog } from './server-log.ts'
import type { DatabaseOptions, NewDatabaseOptions, TokenOptions } from './server-options.ts'
import { Service } from './service.ts'

/** Options of {@link createHandler}. */
export interface LocalHandlerOptions {
  /** Directory of databases, names and the signing key. By default, a temporary one, removed by `close()`. */
  readonly dataDirectory?: string
  /** Whether every database needs a token. @default false */
  readonly auth?: boolean
  /** Maps host names (without port) to databases. @default {} */
  readonly domains?: Readonly<Record<string, string>>
  /** Origins of web pages that may use it, such as `https://app.example`, in addition to pages on this machine. @default [] */
  readonly allowOrigins?: readonly string[]
  /** Called if another server has taken the lock of `dataDirectory`; calls then reject. @default a process warning */
  readonly onLost?: (error: Error) => void
}

const OPTIONS: RulesOf<LocalHandlerOptions> = {
  dataDirectory: NON_EMPTY,
  auth: 'boolean',
  domains: PLAIN_OBJECT,
  allowOrigins: STRINGS,
  onLost: 'function',
}
const ORIGIN = 'http://localhost'

/** Keeps each request as long as the body of its response: a request follows its caller's signal only until it is garbage collected. */
const requests = new WeakMap<ReadableStream, Request>()

/**
 * Creates the service without a socket, on the embedded back end; pass `fetch: handler.fetch` to a client. The first call
 * starts the engine.
 */
export function createHandler(options: LocalHandlerOptions = {}): LocalHandler {
  checkOptions(options, OPTIONS, 'createHandler')
  return new LocalHandler(options)
}

/** A service that is called as a function instead of over a connection. */
export class LocalHandler implements AsyncDisposable {
  readonly #options: LocalHandlerOptions
  #service: Promise<Service> | null = null
  #isClosed = false

  /** Called only by {@link createHandler}. */
  constructor(options: LocalHandlerOptions) {
    this.#options = options
  }

  /** Handles a request as the server does. Has the signature of the global `fetch`, and can be passed on without its object. */
  readonly fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const service = await this.#start()
    const request = input instanceof Request && init === undefined ? input : new Request(input, init)
    const serviceResponse = await service.handle(fromRequest(request))
    const response = toResponse(serviceResponse, request.method === 'HEAD')
    if (response.body !== null) requests.set(response.body, request)
    return response
  }

  /** Creates a database. Names have 1 to 64 characters: `a-z`, `0-9` and `-`. Rejects if the name is taken. */
  async createDatabase(name: string, options: NewDatabaseOptions = {}): Promise<DatabaseAddress> {
    const service = await this.#start()
    await service.createDatabase(name, options)
    const authToken = await service.getOwnerToken(name)
    const url = name === DEFAULT_DATABASE ? ORIGIN : `${ORIGIN}/${name}/`
    return { url, ...(authToken !== undefined && { authToken }) }
  }

  /** Changes the given settings of a database and keeps the others. */
  async updateDatabase(name: string, options: DatabaseOptions): Promise<void> {
    await (await this.#start()).updateDatabase(name, options)
  }

  /** Removes a database and its data, and closes its streams. */
  async deleteDatabase(name: string): Promise<void> {
    await (await this.#start()).deleteDatabase(name)
  }

  /** Creates a token for a database. Rejects on a handler without `auth`. */
  async createToken(name: string, options: TokenOptions = {}): Promise<string> {
    return await (await this.#start()).createToken(name, options)
  }

  /** Stops the engine. Requests in flight are aborted, with status 502 or a truncated body; later calls reject. */
  async close(): Promise<void> {
    this.#isClosed = true
    // the call that has started the engine rejects with the error
    const service = await this.#service?.catch(() => null)
    await service?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #start(): Promise<Service> {
    if (this.#isClosed) throw new Error('the handler is closed')
    const log = new ServerLog('none')
    this.#service ??= Service.start({ ...this.#options, listenHost: 'localhost', log }).catch((error) => {
      this.#service = null // the next call retries
      throw error
    })
    return await this.#service
  }
}
