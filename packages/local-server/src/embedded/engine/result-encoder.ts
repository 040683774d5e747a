import type { SqliteColumn } from './sqlite-connection.ts'

/** One statement's result before it is written as JSON; `rows` is already JSON text. */
export interface StatementResult {
  readonly columns: readonly SqliteColumn[]
  readonly rows: string
  /** What it counts towards the limit of an answer. */
  readonly sizeBytes: number
  readonly affectedRowCount: number
  readonly lastInsertRowid: bigint | null
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly durationMs: number
}

/** Writes a statement's result; `replicationIndex` is null inside a batch, and undefined where there is no such member. */
export function encodeResult(result: StatementResult, replicationIndex: string | null | undefined): string {
  const columns = JSON.stringify(result.columns)
  const rowid = result.lastInsertRowid === null ? 'null' : `"${result.lastInsertRowid}"`
  const index =
    replicationIndex === undefined
      ? ''
      : `"replication_index":${replicationIndex === null ? 'null' : `"${replicationIndex}"`},`
  return (
    `{"cols":${columns},"rows":[${result.rows}],"affected_row_count":${result.affectedRowCount},` +
    `"last_insert_rowid":${rowid},${index}"rows_read":${result.rowsRead},` +
    `"rows_written":${result.rowsWritten},"query_duration_ms":${result.durationMs}}`
  )
}
