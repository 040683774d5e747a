import { isReadingStatement } from '../reading-statement.ts'
import { readLines } from './read-lines.ts'

// Sends statements to a database on this server, over the server's own protocol.

/** A value in the protocol's format; integers are text, which keeps them exact. */
export type Cell =
  | { readonly type: 'null' }
  | { readonly type: 'integer'; readonly value: string }
  /** Null for an infinity. */
  | { readonly type: 'float'; readonly value: number | null }
  | { readonly type: 'text'; readonly value: string }
  | { readonly type: 'blob'; readonly base64: string }

export interface Result {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
  readonly rowsAffected: number
  /** Whether there are more rows than were read. */
  readonly isTruncated: boolean
}

interface WireResult {
  readonly cols: readonly { readonly name: string | null }[]
  readonly rows: readonly (readonly Cell[])[]
  readonly affected_row_count: number
}

interface Description {
  readonly is_readonly: boolean
  readonly is_explain: boolean
}

interface WireError {
  readonly message: string
}

type Outcome<Result> =
  | { readonly type: 'ok'; readonly response: { readonly result: Result } }
  | { readonly type: 'error'; readonly error: WireError }

type CursorEntry =
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: WireResult['cols'] }
  | { readonly type: 'row'; readonly row: readonly Cell[] }
  | { readonly type: 'step_end'; readonly affected_row_count: number }
  | { readonly type: 'step_error'; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }

/** Headers that mark requests from this page, which the inspector does not list. */
const REQUEST_HEADERS = { 'content-type': 'application/json', 'x-baton-inspector': '1' }

async function post(database: string, path: string, body: object, signal?: AbortSignal): Promise<Response> {
  return await fetchOk(`/${encodeURIComponent(database)}${path}`, {
    method: 'POST',
    headers: REQUEST_HEADERS,
    body: JSON.stringify(body),
    signal: signal ?? null,
  })
}

/** Like `fetch`. @throws Error for a response with an error status */
async function fetchOk(path: string, init?: RequestInit): Promise<Response> {
  const response = await fetch(path, init)
  if (!response.ok) throw new Error(describeProblem(response.status, await response.text()))
  return response
}

function describeProblem(status: number, text: string): string {
  // servers put a statement's error into backticks in a JSON string
  const [, message] = /^{"error":"[^`]*`(.+)`"}/.exec(text) ?? []
  return message ? (JSON.parse(`"${message}"`) as string) : `HTTP ${status}: ${text.slice(0, 500)}`
}

const toStatement = (sql: string, args: readonly Cell[]): object => ({ sql, args, want_rows: true })

const toColumns = (cols: WireResult['cols']): readonly string[] => cols.map(({ name }) => name ?? '')

export async function fetchDatabaseNames(): Promise<readonly string[]> {
  return (await (await fetchOk('/_baton/databases')).json()) as string[]
}

/** Sends one request on a stream of its own. @throws Error if it fails */
async function send<T>(database: string, request: object, signal?: AbortSignal): Promise<T> {
  const response = await post(database, '/v2/pipeline', { requests: [request, { type: 'close' }] }, signal)
  const { results } = (await response.json()) as { results: readonly [Outcome<T>] }
  const [outcome] = results
  if (outcome.type === 'error') throw new Error(outcome.error.message)
  return outcome.response.result
}

/** Runs one of the page's own statements. */
export async function execute(database: string, sql: string, args: readonly Cell[] = []): Promise<Result> {
  const result = await send<WireResult>(database, { type: 'execute', stmt: toStatement(sql, args) })
  const { cols, rows, affected_row_count: rowsAffected } = result
  return { columns: toColumns(cols), rows, rowsAffected, isTruncated: false }
}

/** Whether a statement is read-only. Text that might have an effect when it is prepared is not sent to the server. */
async function isReadOnly(database: string, sql: string, signal: AbortSignal): Promise<boolean> {
  if (!isReadingStatement(sql)) return false
  const result = await send<Description>(database, { type: 'describe', sql }, signal)
  return result.is_readonly || result.is_explain
}

/** Options for running a user's statement. */
export interface RunOptions {
  readonly mayWrite: boolean
  readonly maxRows: number
  /** Aborting it also ends the statement on the server. */
  readonly signal: AbortSignal
}

/**
 * Runs a user's statement. Without `mayWrite`, it must be read-only according to the server, and it runs in a transaction that is
 * never committed.
 * @throws Error if the statement fails, if it may write and `mayWrite` is not set, or if the response is truncated
 */
export async function runStatement(
  database: string,
  sql: string,
  { mayWrite, maxRows, signal }: RunOptions,
): Promise<Result> {
  if (!mayWrite && !(await isReadOnly(database, sql, signal)))
    throw new Error('This statement may change the database. Check "Allow changes" to run it.')
  const stmt = toStatement(sql, [])
  const ok = { type: 'ok', step: 0 }
  const steps = mayWrite
    ? [{ stmt }]
    : [
        { stmt: toStatement('BEGIN', []) },
        { stmt, condition: ok },
        { stmt: toStatement('ROLLBACK', []), condition: ok },
      ]
  const cursorAbort = new AbortController()
  const combinedSignal = AbortSignal.any([signal, cursorAbort.signal])
  const response = await post(database, '/v3/cursor', { batch: { steps } }, combinedSignal)
  const stream: OpenStream = { baton: null }
  try {
    return await readCursor(response, { step: mayWrite ? 0 : 1, isWrite: mayWrite, maxRows }, stream)
  } finally {
    // aborts the statement if the response was not read to its end
    cursorAbort.abort()
    const { baton } = stream
    if (baton !== null)
      void post(database, '/v3/pipeline', { baton, requests: [{ type: 'close' }] }).catch(() => {})
  }
}

/** The stream of a cursor. It is closed after the cursor. */
interface OpenStream {
  baton: string | null
}

interface CursorOptions {
  /** Number of the step whose result is returned. */
  readonly step: number
  /** Whether the response is read to its end even after `maxRows`: aborting a write would undo it. */
  readonly isWrite: boolean
  readonly maxRows: number
}

async function readCursor(
  response: Response,
  { step, isWrite, maxRows }: CursorOptions,
  stream: OpenStream,
): Promise<Result> {
  let columns: readonly string[] = []
  let currentStep = -1
  let isTruncated = false
  let rowsAffected: number | null = null
  const rows: (readonly Cell[])[] = []
  for await (const entry of readEntries(response, stream)) {
    if (entry.type === 'step_begin') {
      currentStep = entry.step
      if (currentStep === step) columns = toColumns(entry.cols)
    } else if (entry.type === 'step_error' || entry.type === 'error') throw new Error(entry.error.message)
    else if (entry.type === 'step_end' && currentStep === step) rowsAffected = entry.affected_row_count
    else if (entry.type === 'row') {
      isTruncated = rows.length === maxRows
      if (!isTruncated) rows.push(entry.row)
      else if (!isWrite) return { columns, rows, rowsAffected: 0, isTruncated }
    }
  }
  if (rowsAffected === null)
    throw new Error(`The response was truncated.${isWrite ? ' The database may have been changed.' : ''}`)
  return { columns, rows, rowsAffected, isTruncated }
}

/** Yields the entries of a cursor's response. The first line describes the stream. */
async function* readEntries(response: Response, stream: OpenStream): AsyncGenerator<CursorEntry> {
  for await (const line of readLines(response.body)) {
    if (line === '') continue
    const entry = JSON.parse(line) as CursorEntry | OpenStream
    if ('type' in entry) yield entry
    else stream.baton = entry.baton
  }
}
