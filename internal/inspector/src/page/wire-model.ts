/** Effect of a statement on the transaction and the write lock of its stream. */
export type Effect = 'begin' | 'begin-write' | 'write' | 'commit' | 'rollback' | 'other'

/** A statement as shown: its text without arguments, truncated if long. */
export interface ShownStatement {
  readonly sql: string
  /** One for each statement of the text; empty if it is not executed (`describe`). */
  readonly effects: readonly Effect[]
}

/** The outcome of a statement. */
export type Outcome = 'ok' | 'skipped' | { readonly code: string; readonly message: string }

/** A transaction. Times are in ms since the Unix epoch. */
export interface Span {
  readonly id: number
  readonly database: string
  readonly stream: number
  readonly begin: number
  end: number | null
  /** When it acquired the write lock. */
  lockSince: number | null
  roundTrips: number
  state: 'open' | 'committed' | 'rolled back' | 'lost' | 'expired'
}

/** A request. Times are in ms since the Unix epoch. */
export interface WireRequest {
  readonly n: number
  readonly at: number
  end: number | null
  readonly database: string
  readonly method: string
  readonly path: string
  stream: number | null
  bytes: number
  responseBytes: number
  readonly statements: readonly ShownStatement[]
  /** Number of statements that are not listed. */
  readonly more: number
  status: number | null
  rows: number
  rowsRead: number
  rowsWritten: number
  outcomes: readonly Outcome[]
  error: string | null
  span: Span | null
  /** When it acquired the write lock, if it had to wait for it. */
  waitedUntil: number | null
}

/** An open stream. */
export interface Stream {
  readonly number: number
  readonly database: string
  lastActiveAt: number
  inFlight: number
  span: Span | null
}

/** Sent by the server when a request has arrived. */
export interface RequestEvent {
  readonly type: 'request'
  /** Also the number of the response. */
  readonly n: number
  readonly at: number
  readonly database: string
  readonly method: string
  readonly path: string
  /** Null for routes without streams. */
  readonly stream: number | null
  readonly bytes: number
  readonly statements: readonly ShownStatement[]
  readonly more: number
}

/** Sent by the server when a response is complete. */
export interface ResponseEvent {
  readonly type: 'response'
  readonly n: number
  readonly at: number
  /** Null if there was no response. */
  readonly status: number | null
  readonly bytes: number
  readonly rows: number
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly outcomes: readonly Outcome[]
  /** Error text instead of results. */
  readonly error: string | null
  /** Whether the stream can be continued. */
  readonly isOpen: boolean
  readonly isAutocommit: boolean | null
}

/** Time after which a transaction loses the write lock if another writer waits. */
export const LOCK_WINDOW_MS = 5_000
/** Streams expire after 10 s without a request, at the next full second. */
const IDLE_LIMIT_MS = 11_000
const MAX_REQUESTS = 1_000
const MAX_SPANS = 500

/** Derives the requests, streams, transactions and lock holders of a server from its events; for the page and for `baton mcp`. */
export class WireModel {
  /** Oldest first. */
  readonly requests = new Map<number, WireRequest>()
  readonly streams = new Map<number, Stream>()
  /** Oldest first. */
  spans: Span[] = []
  /** Holders of the write lock, by database. */
  readonly holders = new Map<string, Span>()
  /** Time of the last release of the write lock, by database. */
  readonly #releaseTimes = new Map<string, number>()
  #lastSpanId = 0

  /** Adds a request. */
  begin(event: RequestEvent): void {
    const { n, at, database, method, path, stream: number, bytes, statements, more } = event
    const stream = number === null ? null : this.#getStream(number, database, at)
    if (stream !== null && listEffects(statements).some(isBegin))
      stream.span ??= this.openSpan(database, stream.number, at)
    const span = stream?.span ?? null
    if (span !== null) span.roundTrips += 1
    this.add(newRequest({ n, at, database, method, path, stream: number, bytes, statements, more, span }))
  }

  /** Adds a response. */
  end(event: ResponseEvent): WireRequest | null {
    const request = this.requests.get(event.n)
    if (request === undefined) return null
    const { at, status, bytes: responseBytes, rows, rowsRead, rowsWritten, outcomes, error } = event
    Object.assign(request, { end: at, status, responseBytes, rows, rowsRead, rowsWritten, outcomes, error })
    const stream = request.stream === null ? undefined : this.streams.get(request.stream)
    if (stream === undefined) return request
    stream.inFlight -= 1
    stream.lastActiveAt = at
    if (status === 200) this.#apply(request, stream, event)
    if (!event.isOpen) {
      this.#endTransaction(stream, status === 200 ? 'rolled back' : 'lost', at)
      this.streams.delete(stream.number)
    }
    request.span ??= stream.span
    return request
  }

  closeExpiredStreams(now: number): void {
    for (const stream of this.streams.values()) {
      if (stream.inFlight > 0 || stream.lastActiveAt + IDLE_LIMIT_MS > now) continue
      this.#endTransaction(stream, 'expired', stream.lastActiveAt + IDLE_LIMIT_MS)
      this.streams.delete(stream.number)
    }
  }

  /** Returns the requests that wait for the write lock of a database, oldest first. */
  findWaiters(database: string): WireRequest[] {
    const holder = this.holders.get(database)
    if (holder === undefined) return []
    return [...this.requests.values()].filter(
      (request) =>
        request.end === null &&
        request.database === database &&
        request.stream !== holder.stream &&
        listEffects(request.statements).some(needsLock),
    )
  }

  add(request: WireRequest): void {
    this.requests.set(request.n, request)
    if (this.requests.size <= MAX_REQUESTS) return
    // the stream of a request without a response would never close
    for (const { n, end } of this.requests.values()) if (end !== null) return void this.requests.delete(n)
  }

  openSpan(database: string, stream: number, at: number): Span {
    this.#lastSpanId += 1
    const span: Span = {
      id: this.#lastSpanId,
      database,
      stream,
      begin: at,
      end: null,
      lockSince: null,
      roundTrips: 0,
      state: 'open',
    }
    this.spans.push(span)
    if (this.spans.length > MAX_SPANS) this.spans.shift()
    return span
  }

  closeSpan(span: Span, state: Span['state'], at: number): void {
    if (span.end !== null) return
    span.end = at
    span.state = state
    if (this.holders.get(span.database) !== span) return
    this.holders.delete(span.database)
    this.#releaseTimes.set(span.database, at)
  }

  /** Applies the effects of a completed request to its transaction. */
  #apply(request: WireRequest, stream: Stream, { at, outcomes, isAutocommit }: ResponseEvent): void {
    let hasBegun = request.span !== null && request.span.begin < request.at
    for (const [index, { effects }] of request.statements.entries()) {
      const outcome = outcomes.length === 0 ? 'ok' : outcomes[index]
      const code = typeof outcome === 'object' ? outcome.code : ''
      if (code === 'TRANSACTION_TIMEOUT') this.#endTransaction(stream, 'lost', at)
      // a constraint is checked by a write, after the statements before it; its violation keeps the lock
      const isViolation = code.startsWith('SQLITE_CONSTRAINT')
      if (outcome !== 'ok' && !isViolation) continue
      for (const effect of isViolation ? effects.slice(0, effects.indexOf('write') + 1) : effects) {
        hasBegun ||= isBegin(effect)
        this.#applyEffect(effect, request, stream, at)
      }
    }
    if (!hasBegun) this.#removeTransaction(stream, request)
    if (isAutocommit === true) this.#endTransaction(stream, 'rolled back', at)
    if (isAutocommit === false) stream.span ??= this.openSpan(request.database, stream.number, request.at)
  }

  #applyEffect(effect: Effect, request: WireRequest, stream: Stream, at: number): void {
    if (isBegin(effect)) stream.span ??= this.openSpan(request.database, stream.number, request.at)
    if (needsLock(effect)) this.#assignLock(request, stream.span, at)
    if (effect === 'commit') this.#endTransaction(stream, 'committed', at)
    if (effect === 'rollback') this.#endTransaction(stream, 'rolled back', at)
  }

  /** Assigns the write lock to a stream that has written, so the previous holder has lost it. `span` is null outside transactions. */
  #assignLock(request: WireRequest, span: Span | null, at: number): void {
    const { database, at: requestedAt } = request
    const holder = this.holders.get(database)
    if (holder === span) return
    const isResponding = holder !== undefined && (this.streams.get(holder.stream)?.inFlight ?? 0) > 0
    // a holder with a request in flight is closed by its response, which contains more information
    if (holder !== undefined && !isResponding) this.closeSpan(holder, 'lost', at)
    const since = Math.max(requestedAt, this.#releaseTimes.get(database) ?? 0)
    if (since > requestedAt && span?.lockSince == null) request.waitedUntil ??= since
    if (span === null || span.end !== null) return
    span.lockSince ??= since
    this.holders.set(database, span)
  }

  #endTransaction(stream: Stream, state: Span['state'], at: number): void {
    if (stream.span !== null) this.closeSpan(stream.span, state, at)
    stream.span = null
  }

  /** Removes a requested transaction that did not begin. */
  #removeTransaction(stream: Stream, request: WireRequest): void {
    if (stream.span === null) return
    this.spans = this.spans.filter((span) => span !== stream.span)
    this.#endTransaction(stream, 'rolled back', request.at)
    request.span = null
  }

  #getStream(number: number, database: string, at: number): Stream {
    const stream = this.streams.get(number) ?? {
      number,
      database,
      lastActiveAt: at,
      inFlight: 0,
      span: null,
    }
    stream.inFlight += 1
    stream.lastActiveAt = at
    this.streams.set(number, stream)
    return stream
  }
}

/** Returns a request without a response. */
export function newRequest(
  known: Partial<WireRequest> & Pick<WireRequest, 'n' | 'at' | 'database' | 'method' | 'path'>,
): WireRequest {
  return {
    end: null,
    stream: null,
    bytes: 0,
    responseBytes: 0,
    statements: [],
    more: 0,
    status: null,
    rows: 0,
    rowsRead: 0,
    rowsWritten: 0,
    outcomes: [],
    error: null,
    span: null,
    waitedUntil: null,
    ...known,
  }
}

/** Describes the error of a request in one line; null on success. */
export function findProblem({ outcomes, error, status, end }: WireRequest): string | null {
  if (error !== null) return status === null ? error : `${status} ${error}`
  const failure = outcomes.find((outcome) => typeof outcome === 'object')
  if (typeof failure === 'object') return `${failure.code}: ${failure.message}`
  return end !== null && status !== null && status >= 400 ? `${status}` : null
}

const listEffects = (statements: readonly ShownStatement[]): Effect[] =>
  statements.flatMap(({ effects }) => effects)
const isBegin = (effect: Effect): boolean => effect === 'begin' || effect === 'begin-write'
const needsLock = (effect: Effect): boolean => effect === 'begin-write' || effect === 'write'
