import { newRequest, type Span, WireModel, type WireRequest } from './wire-model.ts'

/** An event of a client's `observe`, whose fields are checked where they are used. */
type ClientEvent = Readonly<Partial<Record<ClientField, unknown>>>
type ClientField = 'at' | 'type' | 'database' | 'id' | 'attempt' | 'sql' | 'transaction' | 'error' | Count
type Count = 'rows' | 'rowsRead' | 'rowsWritten' | 'requestBytes' | 'responseBytes' | 'status'

/** Maximum number of bytes that are read, from the end of a file. */
const MAX_BYTES = 64 * 1_024 ** 2
/** Maximum number of shown statements of a call, and of characters of each. */
const MAX_STATEMENTS = 50
const MAX_SQL_LENGTH = 2_000

/**
 * Reads a file of `observe` events, one JSON object per line, each with its time in `at`.
 * @returns `skipped`: the number of lines that are not known events with a timestamp
 */
export async function readEventLog(
  file: File,
): Promise<{ readonly model: WireModel; readonly events: number; readonly skipped: number }> {
  const isTruncated = file.size > MAX_BYTES
  const lines = (await file.slice(isTruncated ? file.size - MAX_BYTES : 0).text()).split('\n')
  if (isTruncated) lines.shift()
  const log = new EventLog(file.name)
  let events = 0
  let skipped = 0
  for (const line of lines) {
    if (line.trim() === '') continue
    if (log.add(parseLine(line))) events += 1
    else skipped += 1
  }
  return { model: log.model, events, skipped }
}

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

class EventLog {
  readonly model = new WireModel()
  readonly #defaultDatabase: string
  /** The calls in flight, by their ids in the client, which begin at 1 in each process. */
  readonly #calls = new Map<number, WireRequest>()
  readonly #transactions = new Map<number, Span>()
  #count = 0

  constructor(defaultDatabase: string) {
    this.#defaultDatabase = defaultDatabase
  }

  /** Adds an event. @returns false for a value that is not a known event with a timestamp */
  add(value: unknown): boolean {
    const event = (value ?? {}) as ClientEvent
    const at = typeof event.at === 'number' ? event.at : Date.parse(String(event.at))
    if (!Number.isFinite(at) || typeof event.type !== 'string') return false
    const database = typeof event.database === 'string' ? event.database : this.#defaultDatabase
    switch (event.type) {
      case 'query:start':
        this.#begin(event, at, database)
        return true
      case 'query:end':
      case 'query:error':
        this.#end(event, at)
        return true
      case 'transaction:begin':
        this.#transactions.set(Number(event.id), this.model.openSpan(database, Number(event.id), at))
        return true
      case 'transaction:commit':
        this.#closeSpan(event, 'committed', at)
        return true
      case 'transaction:rollback':
        this.#closeSpan(event, 'rolled back', at)
        return true
      case 'transaction:lost':
        this.#closeSpan(event, 'lost', at)
        return true
      case 'request':
        this.#assignRequest(event)
        return true
      case 'retry':
        this.#addNote(`retry, attempt ${Number(event.attempt)}`, event, at, database)
        return true
      case 'transaction:expiring':
        return true
      default:
        return false
    }
  }

  #begin(event: ClientEvent, at: number, database: string): void {
    const sql = Array.isArray(event.sql) ? event.sql.map(String) : []
    const request = this.#create(at, database, sql)
    request.span = this.#transactions.get(Number(event.transaction)) ?? null
    request.stream = request.span?.stream ?? null
    // as an immediate transaction does, the default mode, which events do not have
    if (request.span !== null) request.span.lockSince ??= request.span.begin
    this.#calls.set(Number(event.id), request)
    this.model.add(request)
  }

  #end(event: ClientEvent, at: number): void {
    const request = this.#calls.get(Number(event.id))
    if (request === undefined) return
    this.#calls.delete(Number(event.id))
    const [rows, rowsRead, rowsWritten] = [event.rows, event.rowsRead, event.rowsWritten].map((n) =>
      Number(n ?? 0),
    )
    Object.assign(request, { end: at, rows, rowsRead, rowsWritten })
    if (event.type === 'query:error') request.error = errorText(event.error)
  }

  #closeSpan(event: ClientEvent, state: Span['state'], at: number): void {
    const span = this.#transactions.get(Number(event.id))
    this.#transactions.delete(Number(event.id))
    if (span !== undefined) this.model.closeSpan(span, state, at)
  }

  /** Assigns a request to the call in flight, if there is exactly one. */
  #assignRequest(event: ClientEvent): void {
    const [call] = this.#calls.values()
    if (call === undefined || this.#calls.size > 1) return
    call.bytes += Number(event.requestBytes ?? 0)
    call.responseBytes += Number(event.responseBytes ?? 0)
    call.status = typeof event.status === 'number' ? event.status : null
    if (call.span !== null) call.span.roundTrips += 1
  }

  #addNote(text: string, event: ClientEvent, at: number, database: string): void {
    const request = this.#create(at, database, [])
    this.model.add({ ...request, path: text, end: at, error: errorText(event.error) })
  }

  #create(at: number, database: string, sql: readonly string[]): WireRequest {
    this.#count += 1
    const statements = sql
      .slice(0, MAX_STATEMENTS)
      .map((text) => ({ sql: text.slice(0, MAX_SQL_LENGTH), effects: [] }))
    const more = sql.length - statements.length
    return newRequest({ n: this.#count, at, database, method: '', path: 'call', statements, more })
  }
}

function errorText(error: unknown): string {
  if (typeof error === 'string') return error
  const { code, name, message } = (error ?? {}) as Record<string, unknown>
  return [code ?? name, message].filter((part) => typeof part === 'string').join(': ') || 'failed'
}
