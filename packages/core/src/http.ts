import { createTransport } from '#transport'
import { type Address, checkTimeout, type ResolvedConfig } from './config.ts'
import { HttpError } from './errors.ts'
import { RetryPolicy, sleep } from './retry.ts'
import { FetchTransport } from './transport/fetch.ts'
import type { Transport, TransportRequest } from './transport/transport.ts'

/** Settings of one call. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Longest time for the call in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

/** What a request is known to do. */
export interface RequestOptions extends CallOptions {
  /** Whether it does no harm to run it twice. */
  readonly isRepeatable?: boolean | undefined
}

/** Sends requests to the database's address: headers, token and deadline are put on here. */
export class Http {
  readonly address: Address
  readonly #config: ResolvedConfig
  readonly transport: Transport
  readonly #headers: Record<string, string>
  readonly #retries: RetryPolicy

  constructor(config: ResolvedConfig) {
    this.address = config.address
    this.#config = config
    this.#retries = new RetryPolicy(config.maxRetries)
    this.transport = config.fetch
      ? new FetchTransport(config.fetch)
      : createTransport({ connections: config.connections })
    this.#headers = { 'content-type': 'application/json', ...config.headers }
    if (typeof config.authToken === 'string') Object.assign(this.#headers, authorization(config.authToken))
  }

  /**
   * Sends a body of JSON, again where the policy allows it, within one deadline.
   * @returns the answer's text @throws HttpError for a status other than 2xx
   */
  post(
    path: string,
    body: string,
    options: RequestOptions = {},
    address: Address = this.address,
  ): Promise<string> {
    return this.#exchange('POST', path, body, options, address)
  }

  /** @returns the answer's text @throws HttpError for a status other than 2xx */
  get(path: string, options?: CallOptions): Promise<string> {
    return this.#exchange('GET', path, null, { ...options, isRepeatable: true }, this.address)
  }

  async #exchange(
    method: 'GET' | 'POST',
    path: string,
    body: string | null,
    { signal, timeoutMs = this.#config.requestTimeoutMs, isRepeatable = false }: RequestOptions,
    address: Address,
  ): Promise<string> {
    if (timeoutMs !== this.#config.requestTimeoutMs) checkTimeout('timeoutMs', timeoutMs)
    const started = Date.now()
    for (let attempt = 0; ; attempt++) {
      const leftMs = timeoutMs - (attempt && Date.now() - started)
      try {
        const request = await this.prepare(method, path, body, { signal, timeoutMs: leftMs }, address)
        const { status, text, retryAfter } = await this.transport.request(request)
        if (status < 200 || status > 299) throw new HttpError(status, address.origin, text, retryAfter)
        this.#retries.succeeded()
        return text
      } catch (error) {
        const delayMs = this.#retries.delayMs(error, attempt, isRepeatable)
        if (delayMs === null || delayMs >= leftMs) throw error
        await sleep(delayMs, signal)
      }
    }
  }

  close(): Promise<void> {
    return this.transport.close()
  }

  /** Puts address, token, headers and deadline on a request. */
  async prepare(
    method: 'GET' | 'POST',
    path: string,
    body: string | null,
    { signal, timeoutMs = this.#config.requestTimeoutMs }: CallOptions,
    { origin, basePath }: Address = this.address,
  ): Promise<TransportRequest> {
    const { authToken } = this.#config
    const headers =
      typeof authToken === 'function'
        ? { ...this.#headers, ...authorization(await authToken()) }
        : this.#headers
    return { method, origin, path: basePath + path, headers, body, timeoutMs, signal }
  }
}

function authorization(token: string): Record<string, string> {
  // checked here because the platform's own error would print the header, and the token with it
  if (typeof token !== 'string' || !/^[\x21-\x7e]*$/.test(token)) {
    throw new TypeError('authToken has characters that no token has')
  }
  return token ? { authorization: `Bearer ${token}` } : {}
}
