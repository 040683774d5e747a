import { atCaller } from '../base/at-caller.ts'
import { CALL_OPTIONS, checkOptions } from '../base/check-options.ts'
import { SqlError } from '../base/errors.ts'
import { SCRIPT_REQUEST_LENGTH } from '../base/limits.ts'
import type { CallOptions } from '../options.ts'
import { partsOf, type ScriptPart, type ScriptStatement, splitStatements } from '../sql/script.ts'
import type { Client } from './client.ts'
import { findFailingStatement } from './find-failing-statement.ts'
import type { Stream } from './stream.ts'

/**
 * Runs a script: statements with semicolons between them, such as a dump or a migration file, in as few requests as its
 * length allows. Between `BEGIN` and `COMMIT` all of it takes effect or nothing; outside each statement by itself, and the
 * first that fails is the last. (For a script that is to be one transaction as a whole: `db.batch(splitStatements(text))`.)
 * `timeoutMs` is for each request.
 * @throws SyntaxError with line and column, before anything is sent, for what is not ended, and for a savepoint outside
 * BEGIN and COMMIT; SqlError, whose message has line and column and whose `statementIndex` is the statement's place in the
 * script
 */
export async function executeMultiple(db: Client, script: string, options: CallOptions = {}): Promise<void> {
  checkOptions(options, CALL_OPTIONS)
  const parts = partsOf(splitStatements(script))
  const stream = db.openStream()
  try {
    for (const part of parts) await runPart(stream, part, options)
  } finally {
    await stream.close()
  }
}

async function runPart(
  stream: Stream,
  { transaction, statements, offset }: ScriptPart,
  options: CallOptions,
) {
  if (transaction) stream.begin(transaction.begin.sql)
  let done = offset
  for (const chunk of chunksOf(statements)) {
    try {
      await (transaction ? stream.batch(chunk, options) : stream.chain(chunk, options))
    } catch (error) {
      if (transaction) {
        // it travels with the first statements
        const { begin } = transaction
        const ofBegin = await findFailingStatement(error, [begin], {
          batch: () => stream.batch(['select 1'], options),
        })
        if (ofBegin !== error) throw atCaller(placed(ofBegin, [begin], offset - 1))
      }
      const found = await findFailingStatement(error, chunk, {
        batch: (batch) => stream.batch(batch, options),
      })
      throw atCaller(placed(found, chunk, done), chunk)
    }
    done += chunk.length
  }
  if (transaction) await stream[transaction.end](options)
}

function* chunksOf(statements: readonly ScriptStatement[]): Generator<ScriptStatement[]> {
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
  if (chunk.length > 0) yield chunk
}

/** The error with the place of its statement in the script. */
function placed(error: unknown, chunk: readonly ScriptStatement[], offset: number): unknown {
  if (!(error instanceof SqlError)) return error
  const at = error.statementIndex ?? (chunk.length === 1 ? 0 : null)
  const statement = at === null ? undefined : chunk[at]
  if (at === null || !statement) return error
  const { code, extendedCode } = error
  const message = `line ${statement.line}, column ${statement.column}: ${error.message}`
  return new SqlError({ message, code, extended_code: extendedCode }, statement.sql, offset + at)
}
