import { Readable } from 'node:stream'
import type { ServiceRequest, ServiceResponse } from '../http/service-request.ts'
import { EventRing } from './event-ring.ts'
import { batonAtStart, type Outcome, readAnswer, readRefusal } from './wire-answer.ts'
import { readBody, readRequest, type SeenRequest, type SeenStatement } from './wire-request.ts'
import { type SeenStream, WireStreams } from './wire-streams.ts'

/** What the page gets for a request when its body is there. Times are milliseconds since 1970. */
export interface RequestEvent {
  readonly type: 'request'
  /** The same number in the answer. */
  readonly n: number
  readonly at: number
  readonly database: string
  readonly method: string
  readonly path: string
  /** Null for routes without streams. */
  readonly stream: number | null
  readonly bytes: number
  readonly statements: readonly SeenStatement[]
  readonly more: number
}

/** What the page gets when the answer is complete. */
export interface AnswerEvent {
  readonly type: 'answer'
  readonly n: number
  readonly at: number
  /** Null when there was none. */
  readonly status: number | null
  readonly bytes: number
  readonly rows: number
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly outcomes: readonly Outcome[]
  /** What was said instead of results. */
  readonly error: string | null
  /** Whether the stream can be continued. */
  readonly isOpen: boolean
  readonly isAutocommit: boolean | null
}

/** What the page gets for the server of a database. */
interface NoticeEvent {
  readonly type: 'notice'
  readonly at: number
  readonly database: string
  readonly text: string
}

/** Bytes of a body that are looked at; longer ones are only counted. */
const MAX_LOOKED_AT = 1_024 ** 2
/** Events that are kept for a page that is opened, and the characters they may have together. */
const MAX_EVENTS = 2_000
const MAX_CHARACTERS = 2 * 1_024 ** 2
/** Pages that can look at the same time. */
const MAX_VIEWERS = 8
/** What may wait for a page that reads slowly, in bytes; it misses what is beyond that. */
const MAX_WAITING_BYTES = 4 * 1_024 ** 2
const FLUSH_MS = 50
/** What keeps a connection alive on which nothing happens. */
const HEARTBEAT_MS = 15_000

/**
 * Shows pages what goes over the wire. While no page is open it is not asked: no body is copied, none is read. When
 * one is open, copies of bodies are read; what is answered stays as it is.
 */
export class WindowFeed {
  readonly #hello: string
  readonly #viewers = new Set<Viewer>()
  readonly #streams = new WireStreams()
  readonly #ring = new EventRing(MAX_EVENTS, MAX_CHARACTERS)
  #pending: string[] = []
  #flushing: NodeJS.Timeout | null = null
  #beating: NodeJS.Timeout | null = null
  #last = 0

  /** `about` is the first event of each page. */
  constructor(about: { readonly version: string }) {
    this.#hello = JSON.stringify({ type: 'hello', ...about })
  }

  get isWatched(): boolean {
    return this.#viewers.size > 0
  }

  /** What a page reads: events of the past, then those that come. Null when too many look already. */
  open(): Readable | null {
    if (this.#viewers.size >= MAX_VIEWERS) return null
    this.#flush()
    const viewer = new Viewer()
    viewer.send([this.#hello, ...this.#ring.all])
    this.#viewers.add(viewer)
    this.#beating ??= setInterval(() => this.#beat(), HEARTBEAT_MS).unref()
    viewer.body.once('close', () => this.#leave(viewer))
    return viewer.body
  }

  /** Answers a request by `run`, and tells of both. To be called only while a page is open. */
  async watch(
    database: string,
    request: ServiceRequest,
    run: (request: ServiceRequest) => Promise<ServiceResponse>,
  ): Promise<ServiceResponse> {
    this.#last += 1
    const call = new WatchedCall(this.#last, database.slice(0, 100), request, this.#streams, (event) =>
      this.#tell(event),
    )
    try {
      return call.answered(await run({ ...request, body: call.copyOf(request.body) }))
    } catch (error) {
      call.failed(error)
      throw error
    }
  }

  /** Tells what happened to the server of a database; also those who look later. */
  notice(database: string, text: string): void {
    this.#tell({ type: 'notice', at: now(), database, text })
  }

  #tell(event: RequestEvent | AnswerEvent | NoticeEvent): void {
    const text = JSON.stringify(event)
    this.#ring.add(text)
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

  #beat(): void {
    for (const viewer of this.#viewers) viewer.send([])
  }

  #leave(viewer: Viewer): void {
    this.#viewers.delete(viewer)
    if (this.isWatched || this.#beating === null) return
    clearInterval(this.#beating)
    this.#beating = null
  }
}

/** One page that looks. */
class Viewer {
  readonly body = new Readable({ read() {} })
  #missed = 0

  send(events: readonly string[]): void {
    if (this.body.destroyed) return
    if (this.body.readableLength > MAX_WAITING_BYTES) {
      this.#missed += events.length
      return
    }
    const missed = this.#missed > 0 ? [JSON.stringify({ type: 'missed', count: this.#missed })] : []
    this.#missed = 0
    // a JSON text has no line breaks, so it is one line of the stream of events
    this.body.push(`data: [${[...missed, ...events].join(',')}]\n\n`)
  }
}

/** A request from its body to the end of its answer. */
class WatchedCall {
  readonly #n: number
  readonly #database: string
  readonly #request: ServiceRequest
  readonly #streams: WireStreams
  readonly #tell: (event: RequestEvent | AnswerEvent) => void
  #stream: SeenStream | null = null
  #seen: SeenRequest | null = null
  #isTold = false

  constructor(
    n: number,
    database: string,
    request: ServiceRequest,
    streams: WireStreams,
    tell: (event: RequestEvent | AnswerEvent) => void,
  ) {
    this.#n = n
    this.#database = database
    this.#request = request
    this.#streams = streams
    this.#tell = tell
  }

  /** The same bytes, read only when the copy is read. */
  copyOf(body: Readable): Readable {
    return Readable.from(
      copied(body, (copy) => this.#begun(copy)),
      { objectMode: false },
    )
  }

  answered(response: ServiceResponse): ServiceResponse {
    if (!this.#isTold) this.#begun(NOTHING)
    const { status, body } = response
    if (typeof body === 'string') {
      const bytes = Buffer.byteLength(body)
      this.#ended(status, { bytes, text: body.slice(0, MAX_LOOKED_AT), isWhole: bytes <= MAX_LOOKED_AT })
      return response
    }
    const copy = Readable.from(
      copied(body, (seen) => this.#ended(status, seen)),
      { objectMode: false },
    )
    // a copy that is never read would not end what it is a copy of
    copy.once('close', () => body.destroy())
    return { ...response, body: copy }
  }

  failed(error: unknown): void {
    if (!this.#isTold) this.#begun(NOTHING)
    const message = error instanceof Error ? error.message : String(error)
    this.#tell({ ...this.#noResults(null, 0), error: readRefusal(message) })
  }

  #begun({ bytes, text, isWhole }: Copy): void {
    this.#isTold = true
    const body = this.#request.method === 'POST' && isWhole ? readBody(text) : null
    if (body !== null) {
      this.#stream = this.#streams.take(body.baton)
      this.#seen = readRequest(body, this.#stream.stored)
    }
    const { method, path } = this.#request
    const { statements = [], more = 0 } = this.#seen ?? {}
    const [n, at, database] = [this.#n, now(), this.#database]
    const stream = this.#stream?.number ?? null
    this.#tell({
      type: 'request',
      n,
      at,
      database,
      method,
      path: path.slice(0, 100),
      stream,
      bytes,
      statements,
      more,
    })
  }

  #ended(status: number, { bytes, text, isWhole }: Copy): void {
    const event = this.#noResults(status, bytes)
    if (status !== 200) return this.#tell({ ...event, error: readRefusal(text) })
    const answer = isWhole && this.#seen !== null ? readAnswer(text, this.#seen) : null
    const { baton, ...results } = answer ?? { baton: batonAtStart(text) }
    if (baton !== null && this.#stream !== null) this.#streams.keep(baton, this.#stream)
    this.#tell({ ...event, ...results, isOpen: baton !== null })
  }

  #noResults(status: number | null, bytes: number): AnswerEvent {
    return {
      type: 'answer',
      n: this.#n,
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

/** What was seen of a body. */
interface Copy {
  readonly bytes: number
  /** Its beginning. */
  readonly text: string
  /** Whether that is all of it. */
  readonly isWhole: boolean
}

const NOTHING: Copy = { bytes: 0, text: '', isWhole: true }

/** Passes a body on and says at its end, also when it is given up, what it was. */
async function* copied(body: Readable, done: (copy: Copy) => void): AsyncGenerator<Buffer> {
  const parts: Buffer[] = []
  let bytes = 0
  try {
    for await (const part of body) {
      const piece = Buffer.from(part as Uint8Array | string)
      if (bytes < MAX_LOOKED_AT) parts.push(piece.subarray(0, MAX_LOOKED_AT - bytes))
      bytes += piece.length
      yield piece
    }
  } finally {
    done({ bytes, text: Buffer.concat(parts).toString('utf8'), isWhole: bytes <= MAX_LOOKED_AT })
  }
}

function now(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 100) / 100
}
