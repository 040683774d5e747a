import { createTransport } from '#transport'
import { type Address, checkTimeout, type ResolvedConfig } from '../config.ts'
import { HttpError } from '../errors.ts'
import { Events } from '../events.ts'
import type { CallOptions } from '../options.ts'
import { timeoutError } from '../transport/failure.ts'
import { FetchTransport } from '../transport/fetch.ts'
import type { Transport, TransportRequest, TransportResponse } from '../transport/transport.ts'
import { RequestGate } from './concurrency-limiter.ts'
import { RetryPolicy, sleep } from './retry.ts'
import { ServerState } from './server-state.ts'

/** What the sender of a request adds to the settings of its call. */
export interface SendOptions extends CallOptions {
  /**
   * When the call began, by `performance.now()`, if it has sent something before: its time is counted from then. A cursor
   * has time for each silence instead.
   */
  readonly started?: number | undefined
  /** Called each time the request leaves, after its wait in line. */
  readonly onLeave?: (() => void) | undefined
}

/** What is known of a request. */
export interface RequestOptions extends SendOptions {
  /** Whether it waits for nobody who writes, so that it may pass by those that do. */
  readonly isRead?: boolean | undefined
  /** Whether it does no harm to run it twice. */
  readonly isRepeatable?: boolean | undefined
  /** Whether it goes on with a stream. */
  readonly isHeld?: boolean | undefined
}

type Method = 'GET' | 'POST'

/** Sends requests to the database's address: headers, token, place in line and deadline are put on here. */
export class Http {
  readonly config: ResolvedConfig
  readonly server: ServerState
  readonly events: Events
  readonly gate: RequestGate
  readonly transport: Transport
  readonly #headers: Record<string, string>
  readonly #retries: RetryPolicy

  constructor(config: ResolvedConfig) {
    this.config = config
    this.server = new ServerState(config.minReplicationIndex, config.readYourWrites)
    this.events = new Events(config.observe)
    this.gate = new RequestGate(config.concurrency, config.queueLimit)
    this.#retries = new RetryPolicy(config.maxRetries)
    this.transport = config.fetch ? new FetchTransport(config.fetch) : createTransport()
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
    address: Address = this.config.address,
  ): Promise<string> {
    return this.#exchange('POST', path, body, options, address)
  }

  /** @returns the answer's text @throws HttpError for a status other than 2xx */
  get(path: string, options?: CallOptions): Promise<string> {
    return this.#exchange(
      'GET',
      path,
      null,
      { ...options, isRepeatable: true, isRead: true },
      this.config.address,
    )
  }

  async #exchange(
    method: Method,
    path: string,
    body: string | null,
    options: RequestOptions,
    address: Address,
  ): Promise<string> {
    const { timeoutMs = this.config.requestTimeoutMs, isHeld } = options
    if (timeoutMs !== this.config.requestTimeoutMs) checkTimeout('timeoutMs', timeoutMs)
    if (isHeld) return await this.#attempts(method, path, body, { ...options, timeoutMs }, address)
    this.gate.begin(options.started !== undefined)
    try {
      return await this.#attempts(method, path, body, { ...options, timeoutMs }, address)
    } finally {
      this.gate.end()
    }
  }

  async #attempts(
    method: Method,
    path: string,
    body: string | null,
    options: RequestOptions & { readonly timeoutMs: number },
    address: Address,
  ): Promise<string> {
    const { signal, timeoutMs, isRepeatable = false, isRead = false, isHeld, onLeave } = options
    const { started = performance.now() } = options
    const left = (): number => Math.max(1, Math.ceil(timeoutMs - (performance.now() - started)))
    for (let attempt = 0; ; attempt++) {
      try {
        if (!isHeld) await this.gate.enter(isRead, { timeoutMs: left(), origin: address.origin, signal })
        try {
          const callOptions = { signal, timeoutMs: left(), onLeave }
          const request = await this.prepare(method, path, body, callOptions, address)
          const { status, text, retryAfter } = await this.#send(request)
          if (status < 200 || status > 299) throw new HttpError(status, address.origin, text, retryAfter)
          this.#retries.succeeded()
          return text
        } finally {
          if (!isHeld) this.gate.leave(isRead)
        }
      } catch (error) {
        const delayMs = this.#retries.delayMs(error, attempt, isRepeatable)
        if (delayMs === null || delayMs >= left()) throw error
        if (this.events.isWatched) this.events.emit({ type: 'retry', attempt: attempt + 1, delayMs, error })
        await this.gate.rest(delayMs, signal)
      }
    }
  }

  async #send(request: TransportRequest): Promise<TransportResponse> {
    if (!this.events.isWatched) return await this.transport.request(request)
    const started = performance.now()
    let response: TransportResponse | null = null
    try {
      response = await this.transport.request(request)
      return response
    } finally {
      this.events.emit({
        type: 'request',
        method: request.method,
        path: request.path,
        status: response?.status ?? null,
        requestBytes: byteLength(request.body),
        responseBytes: byteLength(response?.text),
        durationMs: performance.now() - started,
      })
    }
  }

  /** Lets nobody in any more, waits for those inside as long as told, and frees the connections. */
  async close(drainMs: number): Promise<void> {
    await this.gate.close(drainMs)
    await this.transport.close()
  }

  /** Puts address, token, headers and deadline on a request. */
  async prepare(
    method: Method,
    path: string,
    body: string | null,
    { signal, timeoutMs = this.config.requestTimeoutMs, onLeave }: SendOptions,
    { origin, basePath }: Address,
  ): Promise<TransportRequest> {
    const { authToken } = this.config
    let headers = this.#headers
    if (typeof authToken === 'function') {
      const token = await inTime(authToken(), timeoutMs, origin, signal)
      headers = { ...headers, ...authorization(token) }
    }
    onLeave?.()
    signal?.throwIfAborted()
    return { method, origin, path: basePath + path, headers, body, timeoutMs, signal }
  }
}

const byteLength = (text: string | null | undefined): number => new TextEncoder().encode(text ?? '').length

/** Waits for something of the user's, no longer than for an answer of the server. */
async function inTime<T>(
  given: T | Promise<T>,
  timeoutMs: number,
  origin: string,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (timeoutMs === Infinity && !signal) return await given
  const done = new AbortController()
  const waiting = sleep(timeoutMs, signal ? AbortSignal.any([signal, done.signal]) : done.signal)
  const late = waiting.then(() => Promise.reject(timeoutError(timeoutMs, origin, false)))
  try {
    return await Promise.race([given, late])
  } finally {
    done.abort()
  }
}

function authorization(token: string): Record<string, string> {
  // checked here because the platform's own error would print the header, and the token with it
  if (typeof token !== 'string' || !/^[\x21-\x7e]*$/.test(token)) {
    throw new TypeError('authToken has characters that no token has')
  }
  return token ? { authorization: `Bearer ${token}` } : {}
}
