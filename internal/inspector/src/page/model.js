/**
 * @typedef {{ sql: string, effects: readonly string[] }} Statement
 * @typedef {'ok' | 'skipped' | { code: string, message: string }} Outcome
 * @typedef {{ id: number, database: string, stream: number, begin: number, end: number | null,
 *   lockSince: number | null, trips: number, state: 'open' | 'committed' | 'rolled back' | 'lost' | 'expired' }} Span
 *   A transaction; `lockSince` is when it acquired the write lock.
 * @typedef {{ n: number, at: number, end: number | null, database: string, method: string, path: string,
 *   stream: number | null, bytes: number, responseBytes: number, statements: readonly Statement[], more: number,
 *   status: number | null, rows: number, rowsRead: number, rowsWritten: number, outcomes: readonly Outcome[],
 *   error: string | null, span: Span | null, waitedUntil: number | null }} WireRequest
 *   A request; `waitedUntil` is when it acquired the write lock, if it had to wait for it.
 * @typedef {{ number: number, database: string, opened: number, lastAt: number, inFlight: number,
 *   span: Span | null }} Stream
 * @typedef {{ type: 'response', n: number, at: number, status: number | null, bytes: number, rows: number,
 *   rowsRead: number, rowsWritten: number, outcomes: readonly Outcome[], error: string | null, isOpen: boolean,
 *   isAutocommit: boolean | null }} ResponseEvent
 * @typedef {{ type: 'request', n: number, at: number, database: string, method: string, path: string,
 *   stream: number | null, bytes: number, statements: readonly Statement[], more: number }} RequestEvent
 */

/** Time after which a transaction loses the write lock if another writer waits. */
export const WINDOW_MS = 5_000
/** Streams expire after 10 s without a request, at the next full second. */
const IDLE_MS = 11_000
const MAX_REQUESTS = 1_000
const MAX_SPANS = 500

/** Tracks requests, streams and transactions by the observed traffic. */
export class WireModel {
  /** @type {Map<number, WireRequest>} oldest first */
  requests = new Map()
  /** @type {Map<number, Stream>} open streams */
  streams = new Map()
  /** @type {Span[]} oldest first */
  spans = []
  /** @type {Map<string, Span>} holders of the write lock, by database */
  holders = new Map()
  /** @type {Map<string, number>} time of the last release of the write lock, by database */
  #released = new Map()
  #lastSpan = 0

  /**
   * Adds a request.
   * @param {RequestEvent} event
   */
  begin(event) {
    const { n, at, database, method, path, stream: number, bytes, statements, more } = event
    const stream = number === null ? null : this.#streamOf(number, database, at)
    if (stream !== null && stream.span === null && effectsOf(statements).some(isBegin))
      stream.span = this.openSpan(database, stream.number, at)
    const span = stream?.span ?? null
    if (span !== null) span.trips += 1
    this.add({
      n,
      at,
      end: null,
      database,
      method,
      path,
      stream: number,
      bytes,
      statements,
      more,
      span,
      responseBytes: 0,
      status: null,
      rows: 0,
      rowsRead: 0,
      rowsWritten: 0,
      outcomes: [],
      error: null,
      waitedUntil: null,
    })
  }

  /**
   * Adds a response.
   * @param {ResponseEvent} event
   * @returns {WireRequest | null} null for an unknown request
   */
  end(event) {
    const request = this.requests.get(event.n)
    if (request === undefined) return null
    const { at, status, bytes, rows, rowsRead, rowsWritten, outcomes, error } = event
    Object.assign(request, {
      end: at,
      status,
      responseBytes: bytes,
      rows,
      rowsRead,
      rowsWritten,
      outcomes,
      error,
    })
    const stream = request.stream === null ? undefined : this.streams.get(request.stream)
    if (stream === undefined) return request
    stream.inFlight -= 1
    stream.lastAt = at
    if (status === 200) this.#apply(request, stream, event)
    const isGone = !event.isOpen
    if (isGone && stream.span !== null) this.#leave(stream, status === 200 ? 'rolled back' : 'lost', at)
    if (isGone) this.streams.delete(stream.number)
    request.span ??= stream.span
    return request
  }

  /**
   * Closes streams that have expired.
   * @param {number} now
   */
  settle(now) {
    for (const stream of this.streams.values()) {
      if (stream.inFlight > 0 || stream.lastAt + IDLE_MS > now) continue
      this.#leave(stream, 'expired', stream.lastAt + IDLE_MS)
      this.streams.delete(stream.number)
    }
  }

  /**
   * Returns the requests that wait for the write lock of a database, oldest first.
   * @param {string} database
   */
  waiters(database) {
    const holder = this.holders.get(database)
    if (holder === undefined) return []
    return [...this.requests.values()].filter(
      (request) =>
        request.end === null &&
        request.database === database &&
        request.stream !== holder.stream &&
        effectsOf(request.statements).some(needsLock),
    )
  }

  /** @param {WireRequest} request */
  add(request) {
    this.requests.set(request.n, request)
    if (this.requests.size <= MAX_REQUESTS) return
    const [oldest] = this.requests.keys()
    if (oldest !== undefined) this.requests.delete(oldest)
  }

  /**
   * @param {string} database
   * @param {number} stream
   * @param {number} at
   * @returns {Span}
   */
  openSpan(database, stream, at) {
    this.#lastSpan += 1
    /** @type {Span} */
    const span = {
      id: this.#lastSpan,
      database,
      stream,
      begin: at,
      end: null,
      lockSince: null,
      trips: 0,
      state: 'open',
    }
    this.spans.push(span)
    if (this.spans.length > MAX_SPANS) this.spans.shift()
    return span
  }

  /**
   * @param {Span} span
   * @param {Span['state']} state
   * @param {number} at
   */
  closeSpan(span, state, at) {
    if (span.end !== null) return
    span.end = at
    span.state = state
    if (this.holders.get(span.database) !== span) return
    this.holders.delete(span.database)
    this.#released.set(span.database, at)
  }

  /**
   * Applies the effects of an answered request to its transaction.
   * @param {WireRequest} request
   * @param {Stream} stream
   * @param {ResponseEvent} response
   */
  #apply(request, stream, { at, outcomes, isAutocommit }) {
    let hasBegun = request.span !== null && request.span.begin < request.at
    for (const [index, { effects }] of request.statements.entries()) {
      const outcome = outcomes.length === 0 ? 'ok' : outcomes[index]
      if (typeof outcome === 'object' && outcome.code === 'TRANSACTION_TIMEOUT')
        this.#leave(stream, 'lost', at)
      if (outcome !== 'ok') continue
      for (const effect of effects) {
        hasBegun ||= isBegin(effect)
        this.#effect(effect, request, stream, at)
      }
    }
    if (!hasBegun) this.#forget(stream, request)
    if (isAutocommit === true) this.#leave(stream, 'rolled back', at)
    if (isAutocommit === false) stream.span ??= this.openSpan(request.database, stream.number, request.at)
  }

  /**
   * @param {string} effect
   * @param {WireRequest} request
   * @param {Stream} stream
   * @param {number} at
   */
  #effect(effect, request, stream, at) {
    if (isBegin(effect)) stream.span ??= this.openSpan(request.database, stream.number, request.at)
    if (needsLock(effect)) this.#lock(request, stream.span, at)
    if (effect === 'commit') this.#leave(stream, 'committed', at)
    if (effect === 'rollback') this.#leave(stream, 'rolled back', at)
  }

  /**
   * Gives the write lock to a stream that has written; the previous holder has lost it. `span` is null outside of transactions.
   * @param {WireRequest} request
   * @param {Span | null} span
   * @param {number} at
   */
  #lock(request, span, at) {
    const { database, at: asked } = request
    const holder = this.holders.get(database)
    if (holder === span && span !== null) return
    const isResponding = holder !== undefined && (this.streams.get(holder.stream)?.inFlight ?? 0) > 0
    // its own response will contain more information
    if (holder !== undefined && !isResponding) this.closeSpan(holder, 'lost', at)
    const since = Math.max(asked, this.#released.get(database) ?? 0)
    if (since > asked && span?.lockSince == null) request.waitedUntil ??= since
    if (span === null || span.end !== null) return
    span.lockSince ??= since
    this.holders.set(database, span)
  }

  /**
   * @param {Stream} stream
   * @param {Span['state']} state
   * @param {number} at
   */
  #leave(stream, state, at) {
    if (stream.span !== null) this.closeSpan(stream.span, state, at)
    stream.span = null
  }

  /**
   * Removes a requested transaction that has not begun.
   * @param {Stream} stream
   * @param {WireRequest} request
   */
  #forget(stream, request) {
    if (stream.span === null) return
    this.spans = this.spans.filter((span) => span !== stream.span)
    stream.span = null
    request.span = null
  }

  /**
   * @param {number} number
   * @param {string} database
   * @param {number} at
   */
  #streamOf(number, database, at) {
    const stream = this.streams.get(number) ?? {
      number,
      database,
      opened: at,
      lastAt: at,
      inFlight: 0,
      span: null,
    }
    stream.inFlight += 1
    stream.lastAt = at
    this.streams.set(number, stream)
    return stream
  }
}

/**
 * Describes the error of a request in one line; null on success.
 * @param {WireRequest} request
 */
export function problemOf({ outcomes, error, status, end }) {
  if (error !== null) return status === null ? error : `${status} ${error}`
  const failed = outcomes.find((outcome) => typeof outcome === 'object')
  if (typeof failed === 'object') return `${failed.code}: ${failed.message}`
  return end !== null && status !== null && status >= 400 ? `${status}` : null
}

/** @param {readonly Statement[]} statements */
const effectsOf = (statements) => statements.flatMap(({ effects }) => effects)
/** @param {string} effect */
const isBegin = (effect) => effect === 'begin' || effect === 'begin-write'
/** @param {string} effect */
const needsLock = (effect) => effect === 'begin-write' || effect === 'write'
