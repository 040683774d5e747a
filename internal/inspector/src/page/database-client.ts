// Sends statements to a database of this server, over its own protocol.

/** A value as the protocol has it: an integer is text, so that it is exact. */
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
  readonly isCut: boolean
}

interface WireResult {
  readonly cols: readonly { readonly name: string | null }[]
  readonly rows: readonly (readonly Cell[])[]
  readonly affected_row_count: number
}

interface WireError {
  readonly message: string
}

type WireAnswer =
  | { readonly type: 'ok'; readonly response: { readonly result: WireResult & Description } }
  | { readonly type: 'error'; readonly error: WireError }

interface Description {
  readonly is_readonly: boolean
  readonly is_explain: boolean
}

/** An entry of the response of a cursor. */
type CursorEntry =
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: WireResult['cols'] }
  | { readonly type: 'row'; readonly row: readonly Cell[] }
  | { readonly type: 'step_end'; readonly affected_row_count: number }
  | { readonly type: 'step_error'; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }

/** The inspector does not list the requests of its own page. */
const HEADERS = { 'content-type': 'application/json', 'x-baton-inspector': '1' }

async function post(database: string, path: string, body: object, signal?: AbortSignal): Promise<Response> {
  const response = await fetch(`/${encodeURIComponent(database)}${path}`, {
    method: 'POST',
    headers: HEADERS,
    body: JSON.stringify(body),
    signal: signal ?? null,
  })
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${(await response.text()).slice(0, 500)}`)
  return response
}

const statementOf = (sql: string, args: readonly Cell[]): object => ({ sql, args, want_rows: true })

/** Names of the databases of this server. */
export async function databaseNames(): Promise<readonly string[]> {
  return (await (await fetch('/_baton/databases')).json()) as string[]
}

/** Runs a statement of this page. */
export async function execute(database: string, sql: string, args: readonly Cell[] = []): Promise<Result> {
  const [result] = await executeAll(database, [[sql, args]])
  return result as Result
}

/** Runs statements of this page in one request. @throws Error for the first that fails */
export async function executeAll(
  database: string,
  statements: readonly (readonly [sql: string, args: readonly Cell[]])[],
): Promise<readonly Result[]> {
  const requests = statements.map(([sql, args]) => ({ type: 'execute', stmt: statementOf(sql, args) }))
  const response = await post(database, '/v2/pipeline', { requests: [...requests, { type: 'close' }] })
  const { results } = (await response.json()) as { results: readonly WireAnswer[] }
  return results.slice(0, statements.length).map((answer) => {
    if (answer.type === 'error') throw new Error(answer.error.message)
    const { cols, rows, affected_row_count: rowsAffected } = answer.response.result
    return { columns: cols.map(({ name }) => name ?? ''), rows, rowsAffected, isCut: false }
  })
}

/** Whether a statement only reads: the server has prepared it, and nothing here looks at its text. */
async function onlyReads(database: string, sql: string, signal: AbortSignal): Promise<boolean> {
  const body = { requests: [{ type: 'describe', sql }, { type: 'close' }] }
  const response = await post(database, '/v2/pipeline', body, signal)
  const [answer] = ((await response.json()) as { results: readonly WireAnswer[] }).results
  if (answer?.type === 'error') throw new Error(answer.error.message)
  const result = answer?.response.result
  return result?.is_readonly === true || result?.is_explain === true
}

/** How a statement of the user is run. */
export interface RunOptions {
  readonly mayWrite: boolean
  readonly maxRows: number
  /** Ends the statement on the server, too. */
  readonly signal: AbortSignal
}

/**
 * Runs a statement of the user. Without `mayWrite` the server must call it read-only, and it runs in a transaction that is never
 * committed.
 * @throws Error for a statement that fails, or may write without `mayWrite`
 */
export async function runStatement(
  database: string,
  sql: string,
  { mayWrite, maxRows, signal }: RunOptions,
): Promise<Result> {
  if (!mayWrite && !(await onlyReads(database, sql, signal)))
    throw new Error('This statement may change the database. Check "Allow changes" to run it.')
  const stmt = statementOf(sql, [])
  const ok = { type: 'ok', step: 0 }
  const steps = mayWrite
    ? [{ stmt }]
    : [
        { stmt: statementOf('BEGIN', []) },
        { stmt, condition: ok },
        { stmt: statementOf('ROLLBACK', []), condition: ok },
      ]
  const ending = new AbortController()
  const either = AbortSignal.any([signal, ending.signal])
  const response = await post(database, '/v3/cursor', { batch: { steps } }, either)
  try {
    return await readCursor(response, { step: steps.length > 1 ? 1 : 0, maxRows })
  } finally {
    // ends the statement if there are more rows than wanted
    ending.abort()
  }
}

async function readCursor(
  response: Response,
  { step, maxRows }: { readonly step: number; readonly maxRows: number },
): Promise<Result> {
  let columns: readonly string[] = []
  let rowsAffected = 0
  let current = -1
  const rows: (readonly Cell[])[] = []
  for await (const entry of entriesOf(response)) {
    if (entry.type === 'step_begin') {
      current = entry.step
      if (current === step) columns = entry.cols.map(({ name }) => name ?? '')
    } else if (entry.type === 'step_error' || entry.type === 'error') throw new Error(entry.error.message)
    else if (entry.type === 'step_end' && current === step) rowsAffected = entry.affected_row_count
    else if (entry.type === 'row') {
      if (rows.length === maxRows) return { columns, rows, rowsAffected, isCut: true }
      rows.push(entry.row)
    }
  }
  return { columns, rows, rowsAffected, isCut: false }
}

/** The lines of a cursor's response, without the first, which is about the stream. */
async function* entriesOf({ body }: Response): AsyncGenerator<CursorEntry> {
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
      if (!isFirst) yield JSON.parse(line) as CursorEntry
      isFirst = false
    }
    if (done) return
  }
}
