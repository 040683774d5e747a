import { type ArrayRow, type ObjectRow, type ResultSet, SqlError } from '@batonsql/core'
import type { ScriptStatement, Stream } from '@batonsql/core/adapter'
import { isMisuse, toStatementError } from './statement-error.ts'

export interface RunOptions {
  readonly signal: AbortSignal
  /** File name for errors; null for statements from the command line or the prompt. */
  readonly file: string | null
  readonly onResult: (result: ResultSet<ArrayRow>) => Promise<void>
}

/** Limits of a request: number of statements, and their length. */
const CHUNK_STATEMENTS = 100
const CHUNK_LENGTH = 500_000
/** Matches the verb of a statement from a script, which has no comments before it. */
const TRANSACTION_CONTROL = /^(?:begin|commit|end|rollback|savepoint|release)\b/i

/** Whether a statement begins or ends a transaction or a savepoint. */
export const isTransactionControl = (sql: string): boolean => TRANSACTION_CONTROL.test(sql)

/**
 * Runs statements in order, until one fails; several in one request, unless a transaction begins or ends between them.
 * @throws StatementError for the statement that failed
 */
export async function runStatements(
  stream: Stream,
  statements: readonly ScriptStatement[],
  options: RunOptions,
): Promise<void> {
  for (let start = 0; start < statements.length; ) {
    const chunk = sliceChunk(statements, start)
    await runChunk(stream, chunk, options)
    start += chunk.length
  }
}

function sliceChunk(statements: readonly ScriptStatement[], start: number): readonly ScriptStatement[] {
  const sqlAt = (index: number): string => statements[index]?.sql ?? ''
  let end = start + 1
  let length = sqlAt(start).length
  if (isTransactionControl(sqlAt(start))) return statements.slice(start, end)
  while (end < statements.length && end - start < CHUNK_STATEMENTS && !isTransactionControl(sqlAt(end))) {
    length += sqlAt(end).length
    if (length > CHUNK_LENGTH) break
    end += 1
  }
  return statements.slice(start, end)
}

async function runChunk(
  stream: Stream,
  chunk: readonly ScriptStatement[],
  options: RunOptions,
): Promise<void> {
  const { signal, file, onResult } = options
  const callOptions = { signal, rowMode: 'array' } as const
  const [firstStatement] = chunk as [ScriptStatement]
  let results: readonly ResultSet<ArrayRow | ObjectRow>[]
  try {
    results =
      chunk.length === 1
        ? [await stream.execute(firstStatement.sql, [], callOptions)]
        : await (stream.inTransaction ? stream.batch(chunk, callOptions) : stream.chain(chunk, callOptions))
  } catch (error) {
    if (chunk.length === 1) throw toStatementError(error, firstStatement, file)
    if (error instanceof SqlError && error.statementIndex !== null) {
      for (const result of error.results) await onResult(result as ResultSet<ArrayRow>)
      throw toStatementError(error, chunk[error.statementIndex] as ScriptStatement, file)
    }
    // nothing was executed: the client has sent nothing, or the server parses all statements before it executes one
    if (!isMisuse(error) && !(error instanceof SqlError && error.code.startsWith('SQL_'))) throw error
    for (const statement of chunk) await runChunk(stream, [statement], options)
    return
  }
  for (const result of results) await onResult(result as ResultSet<ArrayRow>)
}
