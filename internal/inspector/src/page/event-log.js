import { WireModel } from './model.js'

/** @typedef {import('./model.js').WireRequest} WireRequest */
/** @typedef {import('./model.js').Span} Span */

/** Maximum number of bytes that are read, from the end of a file. */
const MAX_BYTES = 64 * 1_024 ** 2

/**
 * Reads a file of `observe` events, one JSON object per line, each with its time in `at`.
 * @param {File} file
 * @returns {Promise<{ model: WireModel, events: number, skipped: number }>} `skipped`: lines that are not events with a time
 */
export async function readEventLog(file) {
  const isCut = file.size > MAX_BYTES
  const lines = (await file.slice(isCut ? file.size - MAX_BYTES : 0).text()).split('\n')
  if (isCut) lines.shift()
  const log = new EventLog(file.name)
  let [events, skipped] = [0, 0]
  for (const line of lines) {
    if (line.trim() === '') continue
    if (log.take(parsed(line))) events += 1
    else skipped += 1
  }
  return { model: log.model, events, skipped }
}

/** @param {string} line */
function parsed(line) {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

class EventLog {
  model = new WireModel()
  #fallback
  /** @type {Map<number, WireRequest>} */
  #calls = new Map()
  /** @type {Map<number, Span>} */
  #transactions = new Map()
  #extra = 0

  /** @param {string} fallback name of the database for events that do not include it */
  constructor(fallback) {
    this.#fallback = fallback
  }

  /**
   * @param {any} event
   * @returns {boolean} whether it is an event with a time
   */
  take(event) {
    const at = typeof event?.at === 'number' ? event.at : Date.parse(event?.at)
    if (!Number.isFinite(at) || typeof event.type !== 'string') return false
    const database = typeof event.database === 'string' ? event.database : this.#fallback
    switch (event.type) {
      case 'query:start':
        this.#begin(event, at, database)
        return true
      case 'query:end':
      case 'query:error':
        this.#end(event, at)
        return true
      case 'transaction:begin':
        this.#transactions.set(event.id, this.model.openSpan(database, event.id, at))
        return true
      case 'transaction:commit':
      case 'transaction:rollback':
      case 'transaction:lost':
        this.#close(event, at)
        return true
      case 'request':
        this.#trip(event)
        return true
      case 'retry':
        this.#note(`retry, attempt ${Number(event.attempt)}`, event, at, database)
        return true
      case 'transaction:expiring':
        return true
      default:
        return false
    }
  }

  /**
   * @param {any} event
   * @param {number} at
   * @param {string} database
   */
  #begin(event, at, database) {
    const sql = Array.isArray(event.sql) ? event.sql.map(String) : []
    const request = newRequest(Number(event.id), at, database, sql)
    // an event does not contain its transaction
    const open = [...this.#transactions.values()].filter((span) => span.database === database)
    if (event.inTransaction === true && open.length === 1) request.span = open[0] ?? null
    request.stream = request.span?.stream ?? null
    if (request.span !== null && request.span.lockSince === null) request.span.lockSince = request.span.begin
    this.#calls.set(request.n, request)
    this.model.add(request)
  }

  /**
   * @param {any} event
   * @param {number} at
   */
  #end(event, at) {
    const request = this.#calls.get(event.id)
    if (request === undefined) return
    this.#calls.delete(event.id)
    const [rows, rowsRead, rowsWritten] = [event.rows, event.rowsRead, event.rowsWritten].map((n) =>
      Number(n ?? 0),
    )
    Object.assign(request, { end: at, rows, rowsRead, rowsWritten })
    if (event.type === 'query:error') request.error = errorText(event.error)
  }

  /**
   * @param {any} event
   * @param {number} at
   */
  #close(event, at) {
    const span = this.#transactions.get(event.id)
    this.#transactions.delete(event.id)
    const state = { 'transaction:commit': 'committed', 'transaction:rollback': 'rolled back' }[
      String(event.type)
    ]
    if (span !== undefined) this.model.closeSpan(span, /** @type {Span['state']} */ (state ?? 'lost'), at)
  }

  /**
   * Assigns a request to the call in flight, if there is exactly one.
   * @param {any} event
   */
  #trip(event) {
    const [call, ...others] = this.#calls.values()
    if (call === undefined || others.length > 0) return
    call.bytes += Number(event.requestBytes ?? 0)
    call.responseBytes += Number(event.responseBytes ?? 0)
    call.status = typeof event.status === 'number' ? event.status : null
    if (call.span !== null) call.span.trips += 1
  }

  /**
   * @param {string} text
   * @param {any} event
   * @param {number} at
   * @param {string} database
   */
  #note(text, event, at, database) {
    this.#extra -= 1
    const request = newRequest(this.#extra, at, database, [])
    this.model.add({ ...request, path: text, end: at, error: errorText(event.error) })
  }
}

/**
 * @param {number} n
 * @param {number} at
 * @param {string} database
 * @param {string[]} sql
 * @returns {WireRequest}
 */
function newRequest(n, at, database, sql) {
  const statements = sql.slice(0, 50).map((text) => ({ sql: text.slice(0, 2_000), effects: [] }))
  return {
    n,
    at,
    end: null,
    database,
    method: '',
    path: 'call',
    stream: null,
    bytes: 0,
    responseBytes: 0,
    statements,
    more: sql.length - statements.length,
    status: null,
    rows: 0,
    rowsRead: 0,
    rowsWritten: 0,
    outcomes: [],
    waitedUntil: null,
    error: null,
    span: null,
  }
}

/** @param {any} error */
function errorText(error) {
  if (typeof error === 'string') return error
  const { code, name, message } = error ?? {}
  return [code ?? name, message].filter((part) => typeof part === 'string').join(': ') || 'failed'
}
