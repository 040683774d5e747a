import type { ArrayRow, InStatement, ResultSet } from '@batonsql/core'
import type { Stream } from '@batonsql/core/adapter'

/** Reads in one request on a stream. @returns null for each statement that the database rejects */
export async function readTogether(
  stream: Stream,
  statements: readonly InStatement[],
  timeoutMs: number,
): Promise<(ResultSet<ArrayRow> | null)[]> {
  const outcomes = await Promise.allSettled(
    statements.map((statement) => stream.execute(statement, undefined, { rowMode: 'array', timeoutMs })),
  )
  return outcomes.map((outcome) => {
    if (outcome.status === 'fulfilled') return outcome.value
    const { name, code } = Object(outcome.reason) as { name?: string; code?: string }
    if (name === 'SqlError' && code !== 'SCHEMA_MIGRATION_ERROR') return null
    throw outcome.reason
  })
}
