import { Readable } from 'node:stream'
import {
  type BodyWatcher,
  type ServiceRequest,
  type ServiceResponse,
  watchBody,
} from '@batonsql/server-common/http'
import type { RequestEvent, ResponseEvent } from './page/wire-model.ts'
import { extractStatements, type ParsedRequest, parseBody } from './wire-request.ts'
import { findBaton, parseResponse, truncateMessage } from './wire-response.ts'
import { type WireStream, WireStreams } from './wire-streams.ts'

/** A notice about a database's server. */
interface NoticeEvent {
  readonly type: 'notice'
  readonly at: number
  readonly database: string
  readonly text: string
}

/** Maximum number of bytes of a body that are parsed; for longer bodies, only the size is shown. */
const MAX_PARSED_BYTES = 1_024 ** 2
/** Limits of the events that are kept for new pages: number, and total length as JSON. */
const MAX_EVENTS = 2_000
const MAX_EVENT_CHARACTERS = 2 * 1_024 ** 2
const MAX_VIEWERS = 8
/** Maximum number of bytes queued for a slow page. The page misses later events. */
const MAX_QUEUED_BYTES = 4 * 1_024 ** 2
const FLUSH_MS = 50
/** Interval of heartbeats, which keep idle connections open. */
const HEARTBEAT_MS = 15_000

/**
 * Reports the server's traffic to the open pages. Bodies are copied and parsed only while a page is open; responses are never
 * changed.
 */
export class InspectorFeed {
  readonly #greeting: string
  readonly #viewers = new Set<Viewer>()
  readonly #streams = new WireStreams()
  /** The latest events as JSON, for new pages. */
  readonly #kept: string[] = []
  #keptCharacters = 0
  #pending: string[] = []
  #flushing: NodeJS.Timeout | null = null
  #heartbeat: NodeJS.Timeout | undefined
  #lastNumber = 0

  /** @param serverInfo content of the first event for each page */
  constructor(serverInfo: { readonly version: string }) {
    this.#greeting = JSON.stringify({ type: 'hello', ...serverInfo })
  }

  get isWatched(): boolean {
    return this.#viewers.size > 0
  }

  /** Returns the event stream of a page: past events, then live ones. Null if too many pages are connected. */
  open(): Readable | null {
    if (this.#viewers.size >= MAX_VIEWERS) return null
    this.#flush()
    const viewer = new Viewer()
    viewer.send([this.#greeting, ...this.#kept])
    this.#viewers.add(viewer)
    this.#heartbeat ??= setInterval(() => this.#sendHeartbeat(), HEARTBEAT_MS).unref()
    viewer.body.once('close', () => this.#remove(viewer))
    return viewer.body
  }

  /** Handles a request with `run`, and reports both the request and the response. Called only while a page is open. */
  async watch(
    database: string,
    request: ServiceRequest,
    run: (request: ServiceRequest) => Promise<ServiceResponse>,
  ): Promise<ServiceResponse> {
    this.#lastNumber += 1
    const { method, path } = request
    const about = { n: this.#lastNumber, database: database.slice(0, 100), method, path: path.slice(0, 100) }
    const call = new WatchedRequest(about, this.#streams, (event) => this.#emit(event))
    try {
      return call.onResponse(await run({ ...request, body: call.watchRequest(request.body) }))
    } catch (error) {
      call.onFailure(error)
      throw error
    }
  }

  /** Sends a notice about a database's server to all pages, including pages that are opened later. */
  sendNotice(database: string, text: string): void {
    this.#emit({ type: 'notice', at: now(), database, text })
  }

  #emit(event: RequestEvent | ResponseEvent | NoticeEvent): void {
    const text = JSON.stringify(event)
    this.#kept.push(text)
    this.#keptCharacters += text.length
    while (
      this.#kept.length > MAX_EVENTS ||
      (this.#keptCharacters > MAX_EVENT_CHARACTERS && this.#kept.length > 1)
    )
      this.#keptCharacters -= this.#kept.shift()?.length ?? 0
    if (!this.isWatched) return
    this.#pending.push(text)
    this.#flushing ??= setTimeout(() => this.#flush(), FLUSH_MS).unref()
  }

  #flush(): void {
    if (this.#flushing !== null) clearTimeout(this.#flushing)
    this.#flushing = null
    const events = this.#pending
    this.#pending = []
    if (events.length > 0) for (const viewer of this.#viewers) viewer.send(events)
  }

  #sendHeartbeat(): void {
    for (const viewer of this.#viewers) viewer.send([])
  }

  #remove(viewer: Viewer): void {
    this.#viewers.delete(viewer)
    if (this.isWatched) return
    clearInterval(this.#heartbeat)
    this.#heartbeat = undefined
  }
}

/** An open page. */
class Viewer {
  readonly body = new Readable({ read() {} })
  #missed = 0

  send(events: readonly string[]): void {
    if (this.body.destroyed) return
    if (this.body.readableLength > MAX_QUEUED_BYTES) {
      this.#missed += events.length
      return
    }
    const missed = this.#missed > 0 ? [JSON.stringify({ type: 'missed', count: this.#missed })] : []
    this.#missed = 0
    // JSON text has no line breaks, so it is one line of the event stream
    this.body.push(`data: [${[...missed, ...events].join(',')}]\n\n`)
  }
}

/** Observes a request from its body to the end of its response. */
class WatchedRequest {
  readonly #about: Pick<RequestEvent, 'n' | 'database' | 'method' | 'path'>
  readonly #streams: WireStreams
  readonly #emit: (event: RequestEvent | ResponseEvent) => void
  #stream: WireStream | null = null
  #parsed: ParsedRequest | null = null
  #isReported = false

  constructor(
    about: Pick<RequestEvent, 'n' | 'database' | 'method' | 'path'>,
    streams: WireStreams,
    emit: (event: RequestEvent | ResponseEvent) => void,
  ) {
    this.#about = about
    this.#streams = streams
    this.#emit = emit
  }

  /** Returns a stream of the same bytes. Reads the body only while the stream is being read. */
  watchRequest(body: Readable): Readable {
    return watchBody(body, [copyBody((copy) => this.#onRequestBody(copy))])
  }

  onResponse(response: ServiceResponse): ServiceResponse {
    if (!this.#isReported) this.#onRequestBody(EMPTY_COPY)
    const { status, body } = response
    if (typeof body === 'string') {
      const bytes = Buffer.byteLength(body)
      this.#onResponseBody(status, {
        bytes,
        text: body.slice(0, MAX_PARSED_BYTES),
        isComplete: bytes <= MAX_PARSED_BYTES,
      })
      return response
    }
    return { ...response, body: watchBody(body, [copyBody((copy) => this.#onResponseBody(status, copy))]) }
  }

  onFailure(error: unknown): void {
    if (!this.#isReported) this.#onRequestBody(EMPTY_COPY)
    const message = error instanceof Error ? error.message : String(error)
    this.#emit({ ...this.#withoutResults(null, 0), error: truncateMessage(message) })
  }

  #onRequestBody({ bytes, text, isComplete }: BodyCopy): void {
    this.#isReported = true
    const body = this.#about.method === 'POST' && isComplete ? parseBody(text) : null
    if (body !== null) {
      this.#stream = this.#streams.take(body.baton)
      this.#parsed = extractStatements(body, this.#stream.stored)
    }
    const { statements = [], more = 0 } = this.#parsed ?? {}
    const stream = this.#stream?.number ?? null
    this.#emit({
      ...this.#about,
      type: 'request',
      at: now(),
      stream,
      bytes,
      statements,
      more,
    })
  }

  #onResponseBody(status: number, { bytes, text, isComplete }: BodyCopy): void {
    const event = this.#withoutResults(status, bytes)
    if (status !== 200) return this.#emit({ ...event, error: truncateMessage(text) })
    const response = isComplete && this.#parsed !== null ? parseResponse(text, this.#parsed) : null
    const { baton, ...results } = response ?? { baton: findBaton(text) }
    if (baton !== null && this.#stream !== null) this.#streams.add(baton, this.#stream)
    this.#emit({ ...event, ...results, isOpen: baton !== null })
  }

  #withoutResults(status: number | null, bytes: number): ResponseEvent {
    return {
      type: 'response',
      n: this.#about.n,
      at: now(),
      status,
      bytes,
      rows: 0,
      rowsRead: 0,
      rowsWritten: 0,
      outcomes: [],
      error: null,
      isOpen: false,
      isAutocommit: null,
    }
  }
}

interface BodyCopy {
  readonly bytes: number
  /** Beginning of the body. */
  readonly text: string
  /** Whether `text` is the whole body. */
  readonly isComplete: boolean
}

const EMPTY_COPY: BodyCopy = { bytes: 0, text: '', isComplete: true }

/** Copies the beginning of a body, and reports it when the body ends or is aborted. */
function copyBody(done: (copy: BodyCopy) => void): BodyWatcher {
  const parts: Buffer[] = []
  let bytes = 0
  return {
    onPart(part) {
      if (bytes < MAX_PARSED_BYTES) parts.push(part.subarray(0, MAX_PARSED_BYTES - bytes))
      bytes += part.length
    },
    onEnd: () =>
      done({ bytes, text: Buffer.concat(parts).toString('utf8'), isComplete: bytes <= MAX_PARSED_BYTES }),
  }
}

function now(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 100) / 100
}
