import { type ArrayRow, type ResultSet, type ScriptStatement, SqlError, type Stream } from '@batonsql/core'
import { StatementError } from './statement-error.ts'

/** How statements are run. */
export interface RunOptions {
  readonly signal: AbortSignal
  /** Named in errors; null for what was typed. */
  readonly file: string | null
  readonly onResult: (result: ResultSet<ArrayRow>) => Promise<void>
}

/** Statements that travel in one request, and their text in characters. */
const CHUNK_STATEMENTS = 100
const CHUNK_LENGTH = 500_000
const CONTROL = /^(?:begin|commit|end|rollback|savepoint|release)\b/i

/** Whether a statement begins or ends a transaction, or a part of one. */
export const isControl = (sql: string): boolean => CONTROL.test(sql)

/**
 * Runs statements one after the other, none after the first that fails; several in one request where nothing of a
 * transaction's beginning or end stands between them.
 * @throws StatementError for the one that the database refuses
 */
export async function runStatements(
  stream: Stream,
  statements: readonly ScriptStatement[],
  options: RunOptions,
): Promise<void> {
  for (let at = 0; at < statements.length; ) {
    const chunk = chunkAt(statements, at)
    await runChunk(stream, chunk, options)
    at += chunk.length
  }
}

function chunkAt(statements: readonly ScriptStatement[], at: number): readonly ScriptStatement[] {
  let end = at + 1
  let length = statements[at]?.sql.length ?? 0
  const standsAlone = (index: number): boolean => isControl(statements[index]?.sql ?? '')
  if (standsAlone(at)) return statements.slice(at, end)
  while (end < statements.length && end - at < CHUNK_STATEMENTS && !standsAlone(end)) {
    length += statements[end]?.sql.length ?? 0
    if (length > CHUNK_LENGTH) break
    end += 1
  }
  return statements.slice(at, end)
}

async function runChunk(
  stream: Stream,
  chunk: readonly ScriptStatement[],
  options: RunOptions,
): Promise<void> {
  const { signal, file, onResult } = options
  const call = { signal, rowMode: 'array' } as const
  const [first] = chunk as [ScriptStatement]
  try {
    const results =
      chunk.length === 1
        ? [await stream.execute(first.sql, [], call)]
        : await (stream.inTransaction ? stream.batch(chunk, call) : stream.chain(chunk, call))
    for (const result of results) await onResult(result as ResultSet<ArrayRow>)
  } catch (error) {
    if (!(error instanceof SqlError)) throw error
    if (chunk.length === 1) throw new StatementError(error, first, file)
    const failed = error.statementIndex === null ? undefined : chunk[error.statementIndex]
    if (failed) {
      for (const result of error.results) await onResult(result as ResultSet<ArrayRow>)
      throw new StatementError(error, failed, file)
    }
    // refused as a whole, for one that is no SQL: nothing of it has run
    if (!error.code.startsWith('SQL_')) throw error
    for (const statement of chunk) await runChunk(stream, [statement], options)
  }
}
