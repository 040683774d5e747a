import { openBody } from '#transport'
import type { Client } from './client.ts'
import { withIndex } from './codec/batch.ts'
import { type ArrayRow, type ObjectRow, rowDecoder } from './codec/result.ts'
import {
  encodeStatement,
  type InArgs,
  type InStatement,
  isReadOnly,
  refuseControl,
} from './codec/statement.ts'
import { checkTimeout } from './config.ts'
import { HttpError, ProtocolError, SqlError } from './errors.ts'
import { type Events, nextId } from './events.ts'
import { sendWithIndex } from './http/replica-read.ts'
import { ERROR_TEXT_LENGTH } from './limits.ts'
import type { CallOptions, StatementOptions } from './options.ts'
import { type Borrowed, borrowStream, Stream } from './stream/stream.ts'
import { streamOf, Transaction } from './transaction.ts'
import type { WireColumn, WireError, WireValue } from './wire.ts'

type CursorEntry =
  | { readonly baton: string | null }
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: readonly WireColumn[] }
  | { readonly type: 'row'; readonly row: readonly WireValue[] }
  | { readonly type: 'step_end' }
  | { readonly type: 'step_error'; readonly step: number; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }
  | { readonly type: 'replication_index'; readonly replication_index: number | string | null }

/**
 * Reads the rows of one statement as they come, for results that are too large to hold: no more is fetched than the loop
 * takes, and leaving it early ends the statement. Costs two requests, the rows and the end of the stream; inside a
 * transaction one. `timeoutMs` is the longest silence.
 *
 * ```ts
 * for await (const row of readRows(db, 'select * from measurement')) …
 * ```
 * @throws SqlError when the database refuses the statement; HttpError 404 from a server without `/v3/cursor`
 */
export function readRows(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args: InArgs | undefined,
  options: StatementOptions & { readonly rowMode: 'array' },
): AsyncGenerator<ArrayRow, void, undefined>
export function readRows<Row = ObjectRow>(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args?: InArgs,
  options?: StatementOptions,
): AsyncGenerator<Row, void, undefined>
export async function* readRows(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args?: InArgs,
  options: StatementOptions = {},
): AsyncGenerator<unknown, void, undefined> {
  const { sql, json } = encodeStatement(statement, args)
  refuseControl(sql)
  const { signal, timeoutMs } = options
  signal?.throwIfAborted()
  if (timeoutMs !== undefined) checkTimeout('timeoutMs', timeoutMs)
  const isOwn = !(db instanceof Stream || db instanceof Transaction)
  const stream = isOwn ? db.openStream() : db instanceof Transaction ? await streamOf(db, options) : db
  const borrowed = await borrowStream(stream)
  const { events, gate } = borrowed.connection.http
  const given = { ...options, signal: signal ? AbortSignal.any([signal, borrowed.signal]) : borrowed.signal }
  if (isOwn) gate.begin()
  try {
    yield* observed(events, sql, borrowed.inTransaction, rowsOf(borrowed, sql, json, given))
  } catch (error) {
    borrowed.fail(error)
    throw error
  } finally {
    borrowed.giveBack()
    if (isOwn) {
      await stream.close()
      gate.end()
    }
  }
}

async function* observed(
  events: Events,
  sql: string,
  inTransaction: boolean,
  rows: AsyncIterable<unknown>,
): AsyncGenerator<unknown, void, undefined> {
  if (!events.isWatched) {
    yield* rows
    return
  }
  const id = nextId()
  const started = performance.now()
  let count = 0
  events.emit({ type: 'query:start', id, sql: [sql], inTransaction })
  let failure: { readonly error: unknown } | null = null
  try {
    for await (const row of rows) {
      count += 1
      yield row
    }
  } catch (error) {
    failure = { error }
    throw error
  } finally {
    // also when the loop over the rows was left early
    const durationMs = performance.now() - started
    events.emit(
      failure
        ? { type: 'query:error', id, durationMs, ...failure }
        : { type: 'query:end', id, durationMs, rows: count, rowsRead: 0, rowsWritten: 0 },
    )
  }
}

interface Opened {
  readonly first: readonly IteratorResult<string, void>[]
  readonly lines: AsyncGenerator<string, void, undefined>
}

async function* rowsOf(
  borrowed: Borrowed,
  sql: string,
  json: string,
  options: StatementOptions,
): AsyncGenerator<unknown, void, undefined> {
  const { connection, inTransaction } = borrowed
  const { http, baton, address } = connection
  const condition = inTransaction ? ',"condition":{"type":"not","cond":{"type":"is_autocommit"}}' : ''
  const batch = `{"steps":[{"stmt":${json}${condition}}]}`
  const open = async (index: string | null, callOptions: CallOptions): Promise<Opened> => {
    const body = `{${baton ? `"baton":${JSON.stringify(baton)},` : ''}"batch":${withIndex(batch, index)}}`
    const request = await http.prepare('POST', '/v3/cursor', body, callOptions, address)
    const { status, retryAfter, parts } = await openBody(http.transport, request)
    if (status < 200 || status > 299)
      throw refusal(status, address.origin, await textOf(parts), retryAfter, sql)
    const lines = linesOf(parts)
    // a replica that waits for the index gives a baton, and then nothing
    return { lines, first: [await lines.next(), await lines.next()] }
  }
  // a transaction has its state already
  const { first, lines } = inTransaction
    ? await open(null, options)
    : await sendWithIndex(http, { ...options, isRead: baton === null && isReadOnly(sql) }, open)
  let decode: ReturnType<typeof rowDecoder> | null = null
  let isDone = false
  /** Takes one line of the answer. @returns what it has of rows: one or none */
  const take = (line: string): (ObjectRow | ArrayRow)[] => {
    const entry = JSON.parse(line) as CursorEntry
    if (!('type' in entry)) connection.baton = entry.baton
    else if (entry.type === 'replication_index') http.server.sawIndex(entry.replication_index)
    else if (entry.type === 'step_begin')
      decode = rowDecoder(entry.cols, http.config.intMode, options.rowMode)
    else if (entry.type === 'row' && decode) return [decode(entry.row)]
    else if (entry.type === 'step_end') isDone = true
    else if (entry.type === 'step_error' || entry.type === 'error') {
      const error = new SqlError(entry.error, sql)
      const isStolen = error.code === 'TRANSACTION_TIMEOUT'
      throw isStolen ? borrowed.lose('TRANSACTION_EXPIRED', error.message, error) : error
    }
    return []
  }
  for await (const line of following(first, lines)) {
    let rows: (ObjectRow | ArrayRow)[]
    try {
      rows = take(line)
    } catch (error) {
      throw ProtocolError.of(error)
    }
    yield* rows
  }
  if (inTransaction && decode === null)
    throw borrowed.lose('TRANSACTION_LOST', 'the server had ended the transaction')
  if (!isDone) throw new ProtocolError('the rows broke off before their end')
}

function refusal(
  status: number,
  origin: string,
  text: string,
  retryAfter: string | null | undefined,
  sql: string,
): Error {
  // a statement that does not parse is not an entry but a failure of the whole
  const message = /(SQL string [^"]*[^"`])/.exec(text)?.[1]
  if (status === 500 && message) return new SqlError({ message, code: 'SQL_PARSE_ERROR' }, sql)
  return new HttpError(status, origin, text, retryAfter)
}

async function textOf(parts: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of parts)
    if (text.length < ERROR_TEXT_LENGTH) text += decoder.decode(part, { stream: true })
  return text
}

/** Goes on with a generator after results that were taken from it; ends it when the loop is left. */
async function* following<T>(
  first: readonly IteratorResult<T, void>[],
  rest: AsyncGenerator<T, void, undefined>,
): AsyncGenerator<T, void, undefined> {
  try {
    for (const result of first) if (!result.done) yield result.value
    yield* rest
  } finally {
    await rest.return()
  }
}

async function* linesOf(parts: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  // a row may come in many parts, and should not be searched again for each
  let begun: string[] = []
  for await (const part of parts) {
    const [first = '', ...lines] = decoder.decode(part, { stream: true }).split('\n')
    begun.push(first)
    if (lines.length === 0) continue
    yield begun.join('')
    begun = [lines.pop() as string]
    yield* lines
  }
  const rest = begun.join('')
  if (rest !== '') yield rest
}
