import { Readable } from 'node:stream'
import { readBytes, StreamedBody } from '@batonsql/server-common/http'
import type { Dispatcher } from 'undici'

export interface UpstreamResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Bytes if it is small, otherwise a stream. */
  readonly body: Buffer | Readable
}

/** Whether enough of a body has arrived for the response to be returned. */
export type HasEnough = (received: Buffer) => boolean

/** A body up to this size, in bytes, is returned as a whole. */
const MAX_BUFFERED_BYTES = 65_536
const ANY: HasEnough = () => true
const NONE: HasEnough = () => false

/** Thrown if the connection was closed before the response could be returned. The server has received the request. */
export class TruncatedResponseError extends Error {
  override readonly name = 'TruncatedResponseError'
  /** The part of the body that has arrived. */
  readonly received: Buffer

  constructor(received: Buffer, cause: unknown) {
    super('the response from libsql-server was truncated', { cause })
    this.received = received
  }
}

/**
 * Sends a request over the connections of a pool. Avoids the streams of `request()`, which cost more time than a small response
 * itself.
 */
export function exchange(
  pool: Dispatcher,
  request: Dispatcher.DispatchOptions,
  signal: AbortSignal | undefined,
  hasEnough: HasEnough = ANY,
): Promise<UpstreamResponse> {
  return new Promise((resolve, reject) => {
    const handler = new Exchange(resolve, reject, hasEnough, signal)
    try {
      if (signal?.aborted === true) throw signal.reason
      pool.dispatch(request, handler)
    } catch (error) {
      handler.onResponseError(undefined, error)
    }
  })
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #resolve: (response: UpstreamResponse) => void
  readonly #reject: (error: unknown) => void
  readonly #signal: AbortSignal | undefined
  readonly #abort = (): void => {
    this.#reject(this.#signal?.reason)
    this.#controller?.abort(this.#signal?.reason)
  }
  #hasEnough: HasEnough
  #controller: Dispatcher.DispatchController | undefined
  #head: Omit<UpstreamResponse, 'body'> | null = null
  /** Data that has not been passed on yet. */
  #parts: Buffer[] = []
  #stream: StreamedBody | null = null
  readonly #passOn = (): void => {
    const parts = this.#parts.splice(0)
    if (parts.length > 0) this.#stream?.receive(concat(parts))
  }

  // oxlint-disable-next-line max-params
  constructor(
    resolve: (response: UpstreamResponse) => void,
    reject: (error: unknown) => void,
    hasEnough: HasEnough,
    signal: AbortSignal | undefined,
  ) {
    this.#resolve = resolve
    this.#reject = reject
    this.#hasEnough = hasEnough
    this.#signal = signal
    signal?.addEventListener('abort', this.#abort, { once: true })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // aborted while it waited for a connection
    if (this.#signal?.aborted === true) this.#abort()
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: UpstreamResponse['headers'],
  ): void {
    this.#head = { status, headers }
    if (Number(headers['content-length']) <= MAX_BUFFERED_BYTES) this.#hasEnough = NONE
    else if (this.#hasEnough === ANY) this.#begin()
  }

  onResponseData(_controller: Dispatcher.DispatchController, part: Buffer): void {
    this.#parts.push(part)
    // the server sends each row of a cursor as a separate chunk; those that arrived together are passed on together
    if (this.#stream !== null) {
      if (this.#parts.length === 1) process.nextTick(this.#passOn)
      return
    }
    if (this.#hasEnough !== NONE && this.#hasEnough(Buffer.concat(this.#parts))) this.#begin()
  }

  onResponseEnd(): void {
    this.#signal?.removeEventListener('abort', this.#abort)
    if (this.#stream === null) return this.#return(concat(this.#parts))
    this.#passOn()
    this.#stream.complete()
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: unknown): void {
    this.#signal?.removeEventListener('abort', this.#abort)
    if (this.#stream !== null) {
      this.#passOn()
      this.#stream.fail(error as Error)
    } else if (this.#head === null || this.#signal?.aborted === true) this.#reject(error)
    else this.#reject(new TruncatedResponseError(Buffer.concat(this.#parts), error))
  }

  #begin(): void {
    const controller = this.#controller
    const stream = new StreamedBody({
      pause: () => controller?.pause(),
      resume: () => controller?.resume(),
      destroy: () => controller?.abort(new Error('the client has disconnected')),
    })
    this.#stream = stream
    this.#passOn()
    this.#return(stream)
  }

  #return(body: Buffer | Readable): void {
    if (this.#head !== null) this.#resolve({ ...this.#head, body })
  }
}

/** Returns one buffer with all parts; the part itself if there is only one. */
function concat(parts: readonly Buffer[]): Buffer {
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
}

export async function readBody({ body }: UpstreamResponse): Promise<Buffer> {
  return body instanceof Readable ? await readBytes(body) : body
}

/** Reads and discards the rest of a response, if any. */
export function discard({ body }: UpstreamResponse): void {
  if (body instanceof Readable) body.on('error', () => {}).resume()
}
