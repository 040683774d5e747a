import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { copyError, SqlError, withOutcome } from '../base/errors.ts'
import { SCRIPT_REQUEST_LENGTH } from '../base/limits.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import type { CallOptions } from '../options.ts'
import { placeOf, type ScriptStatement, splitStatements } from '../sql/script.ts'
import { type ScriptPart, splitIntoParts } from '../sql/split-into-parts.ts'
import { setsForeignKeys, statementKind } from '../sql/statement-kind.ts'
import { ServerStream } from '../stream/server-stream.ts'
import { type Client, getHttp } from './client.ts'
import { findFailingStatement } from './find-failing-statement.ts'
import { Stream } from './stream.ts'
import { untilClosed } from './until-closed.ts'

/**
 * Runs a script: statements separated by semicolons, such as a dump or a migration file, in as few requests as its length
 * allows. Statements between `BEGIN` and `COMMIT` are a transaction; others are committed individually. Stops at the first
 * failure. (To run a whole script as one transaction: `db.batch(splitStatements(text))`.) `timeoutMs` applies to each request.
 * @throws SyntaxError with line and column, before anything is sent, for unterminated text and for a savepoint outside of BEGIN
 * and COMMIT; SqlError with line and column in its message and the position in the script as `statementIndex`. The `outcome`
 * of an error concerns the whole script.
 */
export async function executeMultiple(
  db: Client,
  script: string,
  callOptions: CallOptions = {},
): Promise<void> {
  checkOptions(callOptions, CALL_OPTIONS)
  const options = { ...callOptions }
  const parts = splitIntoParts(splitStatements(script))
  const http = getHttp(db)
  http.lifetime.begin()
  // `true`: counted above, so that closing the client waits for the whole script
  const stream = new Stream(new ServerStream(http, true))
  /** Whether the script has already changed something that a later failure does not undo. */
  let hasChanges = false
  const onApplied = (statements: readonly ScriptStatement[]): void => {
    // a dump begins with PRAGMA foreign_keys, which changes only the connection
    hasChanges ||= statements.some(({ sql }) => statementKind(sql) !== 'read' && !setsForeignKeys(sql))
  }
  try {
    // also for a script without statements
    options.signal?.throwIfAborted()
    for (const [index, part] of parts.entries()) {
      const isLast = index === parts.length - 1
      if (part.transaction) await runTransaction(stream, part, part.transaction, { options, isLast })
      else await runEach(stream, part, options, onApplied)
      if (part.transaction?.endKind === 'commit') onApplied(part.statements)
    }
  } catch (error) {
    throw hasChanges ? withOutcome(error, 'unknown') : error
  } finally {
    // rolls back an open transaction
    await untilClosed(stream.close(), http, options)
    http.lifetime.end()
  }
}

/** Runs statements that are committed individually. */
async function runEach(
  stream: Stream,
  { statements, offset }: ScriptPart,
  options: CallOptions,
  onApplied: (statements: readonly ScriptStatement[]) => void,
): Promise<void> {
  let position = offset
  for (const chunk of splitIntoChunks(statements)) {
    try {
      await stream.chain(chunk, options)
    } catch (error) {
      throw await locate(error, chunk, position, stream, options)
    }
    onApplied(chunk)
    position += chunk.length
  }
}

/** @param isLast whether this is the last part of the script, so that its last request also closes the stream */
async function runTransaction(
  stream: Stream,
  { statements, offset }: ScriptPart,
  { begin, end, endKind }: NonNullable<ScriptPart['transaction']>,
  { options, isLast }: { readonly options: CallOptions; readonly isLast: boolean },
): Promise<void> {
  stream.begin(begin.sql)
  let position = offset
  for (const chunk of splitIntoChunks(statements)) {
    try {
      await stream.batch(chunk, options)
    } catch (error) {
      // BEGIN is sent with the first chunk
      const located =
        error instanceof SqlError && statementKind(error.sql ?? '') === 'begin'
          ? atStatement(error, begin, offset - 1)
          : await locate(error, chunk, position, stream, options)
      // the transaction is not committed
      throw withOutcome(located, 'not_applied')
    }
    position += chunk.length
  }
  const transactionEnded = stream[endKind](options)
  // in the same tick, so that both share a request
  if (isLast) void stream.close()
  await transactionEnded.catch((error: unknown) => {
    throw error instanceof SqlError ? atStatement(error, end, position) : error
  })
}

/** Adds the position in the script and the caller's stack to the error of a chunk. */
async function locate(
  error: unknown,
  chunk: readonly ScriptStatement[],
  offset: number,
  stream: Stream,
  options: CallOptions,
): Promise<unknown> {
  const locatedError = await findFailingStatement(error, chunk, {
    // executes none of the statements
    batch: (batch) => stream.batch(batch, options),
  })
  return withCallerStack(withPosition(locatedError, chunk, offset), chunk)
}

function* splitIntoChunks(statements: readonly ScriptStatement[]): Generator<ScriptStatement[]> {
  let chunk: ScriptStatement[] = []
  let length = 0
  for (const statement of statements) {
    chunk.push(statement)
    length += statement.sql.length
    if (length < SCRIPT_REQUEST_LENGTH) continue
    yield chunk
    chunk = []
    length = 0
  }
  // an empty chunk sends no request
  yield chunk
}

/** Adds the position of the failing statement in the script to its error. */
function withPosition(error: unknown, chunk: readonly ScriptStatement[], offset: number): unknown {
  if (!(error instanceof SqlError)) return error
  // the error of a single statement has no index; one with an unknown code may come from a proxy instead
  const isFromOnlyStatement =
    chunk.length === 1 && (error.outcome === 'not_applied' || error.constraint !== null)
  const index = error.statementIndex ?? (isFromOnlyStatement ? 0 : null)
  const statement = index === null ? undefined : chunk[index]
  if (index === null || !statement) return error
  return atStatement(error, statement, offset + index)
}

/** Adds a position in the script to the error of a statement. */
function atStatement(error: SqlError, statement: ScriptStatement, statementIndex: number): SqlError {
  return copyError(error, { message: placeOf(statement) + error.message, statementIndex })
}
