/** The part of `fetch` that Baton uses. */
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

/** The status of a response. */
export interface TransportHead {
  readonly status: number
  readonly retryAfter: string | null | undefined
}

export interface TransportResponse extends TransportHead {
  readonly text: string
}

/** A response whose body is streamed. */
export interface TransportBody extends TransportHead {
  /** Header `content-type`; null without one, undefined if the headers are not known. */
  readonly contentType?: string | null | undefined
  /** Yields the parts of the body as they are consumed. Leaving the loop aborts the request. */
  readonly parts: AsyncIterable<Uint8Array>
}

/** A request in flight. It has no deadline: its caller aborts it. */
export interface Exchange<T extends TransportHead = TransportResponse> {
  /** Rejects with a TransportError if there is no response. */
  readonly response: Promise<T>
  /** Whether part of it may have reached the server. */
  readonly isSent: boolean
  abort(): void
}

/** Sends HTTP requests. The only part of core that touches the network. */
export interface Transport {
  request(request: TransportRequest): Exchange
  /** Closes the connections. Does nothing on the second call. */
  close(): Promise<void>
}
