import { atCaller } from './at-caller.ts'
import { checkOptions, STATEMENT_OPTIONS } from './check-options.ts'
import type { Client } from './client.ts'
import type { ArrayRow, ObjectRow } from './codec/result.ts'
import {
  type EncodedStatement,
  encodeStatement,
  type InArgs,
  type InStatement,
  refuseControl,
  refuseSavepoint,
} from './codec/statement.ts'
import { StreamError, TransportError } from './errors.ts'
import type { StatementOptions } from './options.ts'
import { RowReader } from './row-reader.ts'
import { type CursorLease, lendToCursor } from './stream/cursor-lease.ts'
import { Stream, stateOf } from './stream/stream.ts'
import type { StreamState } from './stream/stream-state.ts'
import { actOn, Transaction } from './transaction.ts'

/**
 * Reads the rows of one statement as they come, for results that are too large to hold: no more is fetched than the loop
 * takes, and leaving it early ends the statement, but one that changes something: that is read to its end. Costs two
 * requests, the rows and the end of the stream; inside a transaction one. `timeoutMs` is the longest silence.
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
  given: StatementOptions = {},
): AsyncGenerator<unknown, void, undefined> {
  checkOptions(given, STATEMENT_OPTIONS)
  const encoded = encodeStatement(statement, args)
  refuseControl(encoded.sql)
  const isInside = db instanceof Transaction || (db instanceof Stream && (db.inTransaction || !db.isOpen))
  if (!isInside) refuseSavepoint(encoded.sql)
  const options = { ...given }
  options.signal?.throwIfAborted()
  const isOwn = !(db instanceof Stream || db instanceof Transaction)
  const own = isOwn ? stateOf(db.openStream()) : null
  const lease =
    db instanceof Transaction
      ? await actOn(db, options, (stream, handle) =>
          lendToCursor(stream, { owner: db, statement: encoded, options, ...handle }),
        )
      : await lendToStream(own ?? stateOf(db as Stream), db, encoded, options)
  const { events, lifetime } = lease.connection.http
  const report = events.begin([encoded], lease.transaction)
  const reader = new RowReader(lease, encoded, options)
  let isBegun = false
  try {
    if (isOwn) lifetime.begin()
    isBegun = isOwn
    yield* reader.rows()
    report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
  } catch (error) {
    const { isSent } = reader.progress
    if (isSent) lease.fail(error)
    // the end of the stream does not undo what takes effect by itself
    const isUnclear = error instanceof StreamError && isSent && !lease.inTransaction && !lease.request.isRead
    const reason = isUnclear ? new TransportError('CLOSED', error.message, 'unknown', error) : error
    report?.fail(reason)
    throw atCaller(reason, [encoded])
  } finally {
    // also when the loop over the rows was left early
    if (reader.isLeft) report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
    lease.giveBack()
    await own?.close()
    if (isBegun) lifetime.end()
  }
}

function lendToStream(
  stream: StreamState,
  owner: object,
  statement: EncodedStatement,
  options: StatementOptions,
): Promise<CursorLease> {
  const deadline = stream.connection.http.deadline(options.timeoutMs)
  return lendToCursor(stream, { owner, statement, options, deadline })
}
