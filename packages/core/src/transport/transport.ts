/** The part of `fetch` that Baton uses, so that any implementation fits. */
export type Fetch = (
  url: string,
  init: {
    method: string
    headers: Record<string, string>
    body?: string
    signal: AbortSignal
    redirect: 'manual'
  },
) => Promise<{
  readonly status: number
  readonly headers?: { get(name: string): string | null }
  text(): Promise<string>
  /** Needed by cursors only. */
  readonly body?: ReadableStream<Uint8Array> | null
}>

export interface TransportRequest {
  readonly method: 'GET' | 'POST'
  readonly origin: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  /** Time for everything: waiting for a connection, connecting, the answer and its body. Infinity = no limit. */
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
}

export interface TransportResponse {
  readonly status: number
  readonly text: string
  /** Header `retry-after`. */
  readonly retryAfter: string | null | undefined
}

/** An answer that is read while it comes. */
export interface TransportBody {
  readonly status: number
  readonly retryAfter: string | null | undefined
  /** The body in parts, as fast as they are taken. Leaving the loop ends the request. */
  readonly parts: AsyncIterable<Uint8Array>
}

/** Sends one HTTP request at a time, many at once. The only part of core that touches the network. */
export interface Transport {
  /**
   * @throws TransportError when there is no answer or it takes too long; the signal's reason when that is aborted
   */
  request(request: TransportRequest): Promise<TransportResponse>
  /** Ends what is under way and frees the connections. Does nothing on the second call. */
  close(): Promise<void>
}
