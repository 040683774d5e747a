import { checkOptions } from '@batonsql/options'
import { withCallerStack } from '../base/with-caller-stack.ts'
import type { ArrayRow, ObjectRow } from '../codec/result.ts'
import {
  type EncodedStatement,
  encodeStatement,
  type InArgs,
  type InStatement,
  rejectControl,
  rejectForeignKeys,
  rejectSavepoint,
} from '../codec/statement.ts'
import type { QueryReport } from '../observe/events.ts'
import { type RowsOptions, STATEMENT_OPTIONS } from '../options.ts'
import { RowReader } from '../stream/row-reader.ts'
import { type CallContext, ServerStream } from '../stream/server-stream.ts'
import { type Client, getHttp } from './client.ts'
import { getServerStream, Stream } from './stream.ts'
import { Transaction } from './transaction.ts'
import { untilClosed } from './until-closed.ts'

/**
 * Streams the rows of one statement, for results that are too large for memory. Rows are fetched as the loop consumes them.
 * Leaving the loop early stops the statement, except for a write, which is read to its end. Takes two requests: the second closes
 * the stream. Inside a transaction, the first one has the statement parsed, because a statement that does not parse would end the
 * transaction. The first `next()` sends the first request, but the statement, the arguments and the options are read when
 * `readRows` is called. `timeoutMs` limits each wait for the server. A server without `/v3/cursor` sends the whole result at once.
 * `return()` first waits for a pending `next()`, which the signal ends at once.
 *
 * ```ts
 * for await (const row of readRows(db, 'select * from measurement')) …
 * ```
 * @throws TypeError or RangeError, at once, for invalid arguments; SqlError if the database rejects the statement
 */
export function readRows(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args: InArgs | undefined,
  options: RowsOptions & { readonly rowMode: 'array' },
): AsyncGenerator<ArrayRow, void, undefined>
export function readRows<Row = ObjectRow>(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args?: InArgs,
  options?: RowsOptions,
): AsyncGenerator<Row, void, undefined>
export function readRows(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args?: InArgs,
  options: RowsOptions = {},
): AsyncGenerator<unknown, void, undefined> {
  checkOptions(options, { ...STATEMENT_OPTIONS, onColumns: 'function' })
  const encoded = encodeStatement(statement, args)
  rejectControl(encoded)
  if (!(db instanceof Stream || db instanceof Transaction)) getHttp(db)
  return read(db, encoded, { ...options })
}

async function* read(
  db: Client | Transaction | Stream,
  encoded: EncodedStatement,
  options: RowsOptions,
): AsyncGenerator<unknown, void, undefined> {
  const isInTransaction =
    db instanceof Transaction || (db instanceof Stream && (db.inTransaction || !db.isOpen))
  if (isInTransaction) rejectForeignKeys([encoded])
  else rejectSavepoint(encoded)
  const ownStream = db instanceof Stream || db instanceof Transaction ? null : new ServerStream(getHttp(db))
  const lifetime = ownStream?.http.lifetime
  let isCounted = false
  let reader: RowReader | undefined
  let report = null as QueryReport | null
  try {
    const open = (stream: ServerStream, context: CallContext): Promise<RowReader> => {
      const { events } = stream.http
      if (events.isWatched) report = events.begin([encoded], stream.state.transaction?.id ?? null)
      lifetime?.begin()
      isCounted = true
      return RowReader.open(stream, db, encoded, { ...context, options })
    }
    if (db instanceof Transaction) reader = await Transaction.withStream(db, options, open)
    else {
      const stream = ownStream ?? getServerStream(db as Stream)
      reader = await open(stream, { deadline: stream.http.deadline(options.timeoutMs) })
    }
    yield* reader.rows()
    report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
  } catch (error) {
    const reason = reader ? reader.fail(error) : error
    report?.fail(reason)
    report = null
    throw withCallerStack(reason, [encoded])
  } finally {
    // also if the loop is left early
    if (reader?.stoppedEarly) report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
    reader?.release()
    if (ownStream) await untilClosed(ownStream.close(), ownStream.http, options)
    if (isCounted) lifetime?.end()
  }
}
