import { checkOptions, STATEMENT_OPTIONS } from '../base/check-options.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import type { ArrayRow, ObjectRow } from '../codec/result.ts'
import {
  type EncodedStatement,
  encodeStatement,
  type InArgs,
  type InStatement,
  refuseControl,
  refuseSavepoint,
} from '../codec/statement.ts'
import type { QueryReport } from '../observe/events.ts'
import type { StatementOptions } from '../options.ts'
import { RowReader } from '../stream/row-reader.ts'
import type { HandleCall, ServerStream } from '../stream/server-stream.ts'
import type { Client } from './client.ts'
import { Stream, stateOf } from './stream.ts'
import { actOn, Transaction } from './transaction.ts'

/**
 * Reads the rows of one statement as they come, for results that are too large to hold: no more is fetched than the loop
 * takes, and leaving it early ends the statement, unless it changes something: that is read to its end. Costs two requests,
 * the rows and the end of the stream; inside a transaction one, or two as its first call. The request is sent by the first
 * `next()`; statement, arguments and options are taken when `readRows` is called. `timeoutMs` is the longest silence.
 *
 * ```ts
 * for await (const row of readRows(db, 'select * from measurement')) …
 * ```
 * @throws TypeError or RangeError, at once, for an argument that cannot be sent; SqlError when the database refuses the statement; HttpError 404 from a server without `/v3/cursor`
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
export function readRows(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args?: InArgs,
  options: StatementOptions = {},
): AsyncGenerator<unknown, void, undefined> {
  checkOptions(options, STATEMENT_OPTIONS)
  const encoded = encodeStatement(statement, args)
  refuseControl(encoded)
  return read(db, encoded, { ...options })
}

async function* read(
  db: Client | Transaction | Stream,
  encoded: EncodedStatement,
  options: StatementOptions,
): AsyncGenerator<unknown, void, undefined> {
  const isInside = db instanceof Transaction || (db instanceof Stream && (db.inTransaction || !db.isOpen))
  if (!isInside) refuseSavepoint(encoded)
  options.signal?.throwIfAborted()
  const own = db instanceof Stream || db instanceof Transaction ? null : stateOf(db.openStream())
  const lifetime = own?.http.lifetime
  lifetime?.begin()
  let reader: RowReader | undefined
  let report: QueryReport | null = null
  try {
    const open = (stream: ServerStream, handle: HandleCall): Promise<RowReader> =>
      RowReader.open(stream, db, encoded, { ...handle, options })
    if (db instanceof Transaction) reader = await actOn(db, options, open)
    else {
      const stream = own ?? stateOf(db as Stream)
      reader = await open(stream, { deadline: stream.http.deadline(options.timeoutMs) })
    }
    report = reader.http.events.begin([encoded], reader.transactionId)
    yield* reader.rows()
    report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
  } catch (error) {
    const reason = reader ? reader.fail(error) : error
    report?.fail(reason)
    report = null
    throw withCallerStack(reason, [encoded])
  } finally {
    // also when the loop over the rows was left early
    if (reader?.stoppedEarly) report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
    reader?.release()
    await own?.close()
    lifetime?.end()
  }
}
