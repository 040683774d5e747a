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
}

/** The first part of every answer. */
export interface TransportHead {
  readonly status: number
  /** Header `retry-after`. */
  readonly retryAfter: string | null | undefined
}

export interface TransportResponse extends TransportHead {
  readonly text: string
}

/** An answer that is read while it comes. */
export interface TransportBody extends TransportHead {
  /** The body in parts, as fast as they are taken. Leaving the loop ends the request. */
  readonly parts: AsyncIterable<Uint8Array>
}

/** A request under way. It has no deadline of its own: its caller aborts it. */
export interface Exchange<T extends TransportHead = TransportResponse> {
  /** Rejects with a TransportError when there is no answer. */
  readonly answer: Promise<T>
  /** Whether any of it may have reached the server. */
  readonly isSent: boolean
  /** Drops the connection. */
  abort(): void
}

/** Sends HTTP requests. The only part of core that touches the network. */
export interface Transport {
  request(request: TransportRequest): Exchange
  /** Frees the connections. Does nothing on the second call. */
  close(): Promise<void>
}
