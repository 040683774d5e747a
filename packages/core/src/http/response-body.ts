import { HttpError } from '../base/errors.ts'
import { ERROR_TEXT_LENGTH } from '../base/limits.ts'
import type { Exchange, TransportBody } from '../transport/transport.ts'
import { type Http, joinUrl, unwrap } from './http.ts'
import { isSuccess, type Message } from './message.ts'
import { openObservedBody } from './observed-body.ts'
import { READ } from './policies.ts'

/** A GET request whose response is streamed. */
export interface BodyRequest {
  /** Path with query. */
  readonly path: string
  readonly signal: AbortSignal | undefined
  /** Longest time without data from the server, in ms. */
  readonly idleTimeoutMs: number
}

/**
 * The response to a GET, read as it arrives and no faster than it is consumed. The caller must close it. Every wait ends when
 * the signal is aborted, the time limit is reached, or the client is closed.
 */
export class ResponseBody implements AsyncIterable<Uint8Array> {
  /** Header `content-type`; null without one, undefined if the headers are not known. */
  readonly contentType: string | null | undefined
  readonly #http: Http
  readonly #request: BodyRequest
  readonly #exchange: Exchange<TransportBody>
  readonly #parts: AsyncIterator<Uint8Array>
  readonly #abort = (): void => this.#exchange.abort()
  #isClosed = false

  private constructor(
    http: Http,
    request: BodyRequest,
    { exchange, response }: { exchange: Exchange<TransportBody>; response: TransportBody },
  ) {
    this.#http = http
    this.#request = request
    this.#exchange = exchange
    this.contentType = response.contentType
    this.#parts = response.parts[Symbol.asyncIterator]()
    // an abort between two parts also ends the request
    request.signal?.addEventListener('abort', this.#abort)
  }

  /** Sends the request, with retries. @throws HttpError for a status other than 2xx */
  static async open(http: Http, request: BodyRequest, timeoutMs: number): Promise<ResponseBody> {
    const { path, signal } = request
    const { address } = http.config
    signal?.throwIfAborted()
    let exchange: Exchange<TransportBody>
    const message: Message<TransportBody, ResponseBody> = {
      path,
      body: null,
      address,
      send: (transportRequest) => {
        exchange = openObservedBody(http, transportRequest)
        return exchange
      },
      read: async (response) => {
        const body = new ResponseBody(http, request, { exchange, response })
        if (isSuccess(response.status)) return body
        throw new HttpError(
          response.status,
          joinUrl(address, path),
          await readErrorText(body),
          response.retryAfter,
        )
      },
    }
    const options = { signal, deadline: http.deadline(timeoutMs), limiter: http.reads, policy: READ }
    return unwrap(await http.send(message, options))
  }

  /** Yields the parts of the body. @throws TransportError `TIMEOUT` after too long a pause */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (let part = await this.#next(); part; part = await this.#next()) yield part
    } finally {
      this.close()
    }
  }

  async #next(): Promise<Uint8Array | null> {
    const { idleTimeoutMs, signal } = this.#request
    const { lifetime } = this.#http
    const deadline = { remainingMs: idleTimeoutMs, timeoutMs: idleTimeoutMs }
    const part = await lifetime.until(() => this.#parts.next(), { deadline, signal })
    return part.done ? null : part.value
  }

  /** Aborts the request, unless it was read to its end. Does nothing on the second call. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#request.signal?.removeEventListener('abort', this.#abort)
    this.#exchange.abort()
  }
}

/** Reads the beginning of the body of an error response. */
export async function readErrorText(parts: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const part of parts) {
      text += decoder.decode(part, { stream: true })
      if (text.length >= ERROR_TEXT_LENGTH) break
    }
  } catch {
    // the text so far is enough
  }
  return text
}
