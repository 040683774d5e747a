import type { Client, InValue } from '@batonsql/core'
import { SingleBar } from 'cli-progress'
import type { Tables } from './data.ts'

const ROWS_PER_STATEMENT = 200
const STATEMENTS_PER_BATCH = 5

/** Inserts all rows, a thousand per request, and returns their number. */
export async function importTables(db: Client, tables: Tables): Promise<number> {
  const statements = Object.entries(tables).flatMap(([table, rows]) => insertStatements(table, rows))
  const total = Object.values(tables).reduce((sum: number, rows: readonly unknown[]) => sum + rows.length, 0)
  const bar = new SingleBar({
    format: '  {bar} {value} of {total} rows',
    noTTYOutput: true,
    notTTYSchedule: 1_000,
    stream: process.stdout,
    clearOnComplete: false,
  })
  bar.start(total, 0)
  for (let start = 0; start < statements.length; start += STATEMENTS_PER_BATCH) {
    const results = await db.batch(statements.slice(start, start + STATEMENTS_PER_BATCH))
    bar.increment(results.reduce((sum, { rowsAffected }) => sum + rowsAffected, 0))
  }
  bar.stop()
  return total
}

function insertStatements(
  table: string,
  rows: readonly Record<string, InValue>[],
): { sql: string; args: InValue[] }[] {
  const columns = Object.keys(rows[0] ?? {})
  const statements = []
  for (let start = 0; start < rows.length; start += ROWS_PER_STATEMENT) {
    const part = rows.slice(start, start + ROWS_PER_STATEMENT)
    const placeholders = `(${columns.map(() => '?').join()})`
    statements.push({
      sql: `insert into ${table} (${columns.join()}) values ${part.map(() => placeholders).join()}`,
      args: part.flatMap((row) => columns.map((column) => row[column] as InValue)),
    })
  }
  return statements
}
