import { isReadingStatement } from '../reading-statement.ts'

// Sends statements to a database on this server, over the server's own protocol.

/** A value in the protocol's format; integers are text, which keeps them exact. */
export type Cell =
  | { readonly type: 'null' }
  | { readonly type: 'integer'; readonly value: string }
  | { readonly type: 'float'; readonly value: number }
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

interface WireError {
  readonly message: string
}

type WireOutcome =
  | { readonly type: 'ok'; readonly response: { readonly result: WireResult & Description } }
  | { readonly type: 'error'; readonly error: WireError }

interface Description {
  readonly is_readonly: boolean
  readonly is_explain: boolean
}

/** An entry of a cursor's response. */
type CursorEntry =
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: WireResult['cols'] }
  | { readonly type: 'row'; readonly row: readonly Cell[] }
  | { readonly type: 'step_end'; readonly affected_row_count: number }
  | { readonly type: 'step_error'; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }

/** Headers that mark requests from this page, which the inspector does not list. */
const REQUEST_HEADERS = { 'content-type': 'application/json', 'x-baton-inspector': '1' }

async function post(database: string, path: string, body: object, signal?: AbortSignal): Promise<Response> {
  const response = await fetch(`/${encodeURIComponent(database)}${path}`, {
    method: 'POST',
    headers: REQUEST_HEADERS,
    body: JSON.stringify(body),
    signal: signal ?? null,
  })
  if (!response.ok) throw new Error(describeProblem(response.status, await response.text()))
  return response
}

function describeProblem(status: number, text: string): string {
  if (text.includes('more than one statement'))
    return 'There is more than one statement: run them one at a time.'
  if (text.includes('not contain any statement')) return 'There is no statement.'
  return `HTTP ${status}: ${text.slice(0, 500)}`
}

const toStatement = (sql: string, args: readonly Cell[]): object => ({ sql, args, want_rows: true })

/** Returns the names of the server's databases. */
export async function fetchDatabaseNames(): Promise<readonly string[]> {
  return (await (await fetch('/_baton/databases')).json()) as string[]
}

/** Sends one request on a stream of its own. @throws Error if it fails */
async function send(
  database: string,
  request: object,
  signal?: AbortSignal,
): Promise<WireResult & Description> {
  const response = await post(database, '/v2/pipeline', { requests: [request, { type: 'close' }] }, signal)
  const { results } = (await response.json()) as { results: readonly [WireOutcome] }
  const [outcome] = results
  if (outcome.type === 'error') throw new Error(outcome.error.message)
  return outcome.response.result
}

/** Runs one of the page's own statements. */
export async function execute(database: string, sql: string, args: readonly Cell[] = []): Promise<Result> {
  const result = await send(database, { type: 'execute', stmt: toStatement(sql, args) })
  const { cols, rows, affected_row_count: rowsAffected } = result
  return { columns: cols.map(({ name }) => name ?? ''), rows, rowsAffected, isTruncated: false }
}

/** Whether a statement is read-only according to the server, which prepares it if its text allows that. */
async function isReadOnly(database: string, sql: string, signal: AbortSignal): Promise<boolean> {
  if (!isReadingStatement(sql)) return false
  const result = await send(database, { type: 'describe', sql }, signal)
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
 * @throws Error for a statement that fails, or may write without `mayWrite`
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
    // a write must not be aborted after the last row that is shown, because it would be undone
    return await readCursor(
      response,
      { step: steps.length > 1 ? 1 : 0, maxRows, readsToEnd: mayWrite },
      stream,
    )
  } finally {
    // ends the statement if there are more rows than requested
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

async function readCursor(
  response: Response,
  {
    step,
    maxRows,
    readsToEnd,
  }: { readonly step: number; readonly maxRows: number; readonly readsToEnd: boolean },
  stream: OpenStream,
): Promise<Result> {
  let columns: readonly string[] = []
  let rowsAffected = 0
  let currentStep = -1
  let isTruncated = false
  const rows: (readonly Cell[])[] = []
  for await (const entry of readEntries(response, stream)) {
    if (entry.type === 'step_begin') {
      currentStep = entry.step
      if (currentStep === step) columns = entry.cols.map(({ name }) => name ?? '')
    } else if (entry.type === 'step_error' || entry.type === 'error') throw new Error(entry.error.message)
    else if (entry.type === 'step_end' && currentStep === step) rowsAffected = entry.affected_row_count
    else if (entry.type === 'row') {
      isTruncated = rows.length === maxRows
      if (isTruncated && !readsToEnd) break
      if (!isTruncated) rows.push(entry.row)
    }
  }
  return { columns, rows, rowsAffected, isTruncated }
}

/** Yields the entries of a cursor's response. The first line describes the stream. */
async function* readEntries({ body }: Response, stream: OpenStream): AsyncGenerator<CursorEntry> {
  if (body === null) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  let isFirst = true
  for (;;) {
    const { done, value = '' } = await reader.read()
    text += value
    const lines = text.split('\n')
    text = done ? '' : (lines.pop() ?? '')
    for (const line of lines) {
      if (line.trim() === '') continue
      if (isFirst) stream.baton = (JSON.parse(line) as OpenStream).baton
      else yield JSON.parse(line) as CursorEntry
      isFirst = false
    }
    if (done) return
  }
}
