import { createTransport } from '#transport'
import { type Address, checkTimeout, type ResolvedConfig } from './config.ts'
import { HttpError } from './errors.ts'
import { FetchTransport } from './transport/fetch.ts'
import type { Transport, TransportResponse } from './transport/transport.ts'

/** Settings of one call. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Longest time for the call in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

/** Sends requests to the database's address: headers, token and deadline are put on here. */
export class Http {
  readonly address: Address
  readonly #config: ResolvedConfig
  readonly #transport: Transport
  readonly #headers: Record<string, string>

  constructor(config: ResolvedConfig) {
    this.address = config.address
    this.#config = config
    this.#transport = config.fetch
      ? new FetchTransport(config.fetch)
      : createTransport({ connections: config.connections })
    this.#headers = { 'content-type': 'application/json', ...config.headers }
    if (typeof config.authToken === 'string') Object.assign(this.#headers, authorization(config.authToken))
  }

  /** Sends a body of JSON. @returns the answer's text @throws HttpError for a status other than 2xx */
  async post(
    path: string,
    body: string,
    options: CallOptions = {},
    address: Address = this.address,
  ): Promise<string> {
    return succeeded(await this.#send('POST', path, body, options, address), address)
  }

  /** @returns the answer's text @throws HttpError for a status other than 2xx */
  async get(path: string, options: CallOptions = {}): Promise<string> {
    return succeeded(await this.#send('GET', path, null, options, this.address), this.address)
  }

  close(): Promise<void> {
    return this.#transport.close()
  }

  async #send(
    method: 'GET' | 'POST',
    path: string,
    body: string | null,
    { signal, timeoutMs = this.#config.requestTimeoutMs }: CallOptions,
    address: Address,
  ): Promise<TransportResponse> {
    if (timeoutMs !== this.#config.requestTimeoutMs) checkTimeout('timeoutMs', timeoutMs)
    let headers = this.#headers
    const { authToken } = this.#config
    if (typeof authToken === 'function') headers = { ...headers, ...authorization(await authToken()) }
    return this.#transport.request({
      method,
      origin: address.origin,
      path: address.basePath + path,
      headers,
      body,
      timeoutMs,
      signal,
    })
  }
}

function authorization(token: string): Record<string, string> {
  // checked here because the platform's own error would print the header, and the token with it
  if (typeof token !== 'string' || !/^[\x21-\x7e]*$/.test(token)) {
    throw new TypeError('authToken has characters that no token has')
  }
  return token ? { authorization: `Bearer ${token}` } : {}
}

function succeeded(response: TransportResponse, address: Address): string {
  if (response.status < 200 || response.status > 299)
    throw new HttpError(response.status, address.origin, response.text)
  return response.text
}
