import { concat, type JsonText } from '../protocol/json-text.ts'
import type { SqliteColumn } from './sqlite-connection.ts'

export interface StatementResult {
  readonly columns: readonly SqliteColumn[]
  /** JSON of each row, with commas between them. */
  readonly rows: JsonText
  /** Size that counts towards the limit of a response. */
  readonly sizeBytes: number
  readonly affectedRowCount: number
  /** Null unless the statement is an INSERT or REPLACE. */
  readonly lastInsertRowid: bigint | null
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly durationMs: number
}

/**
 * Encodes a result as JSON.
 * @param replicationIndex null in a batch, in a migration, and before the first commit; undefined omits it, as Turso Cloud does
 */
export function encodeResult(result: StatementResult, replicationIndex: string | null | undefined): JsonText {
  const columns = JSON.stringify(result.columns)
  const rowid = result.lastInsertRowid === null ? 'null' : `"${result.lastInsertRowid}"`
  const index =
    replicationIndex === undefined ? '' : `"replication_index":${JSON.stringify(replicationIndex)},`
  return concat(
    `{"cols":${columns},"rows":[`,
    result.rows,
    `],"affected_row_count":${result.affectedRowCount},` +
      `"last_insert_rowid":${rowid},${index}"rows_read":${result.rowsRead},` +
      `"rows_written":${result.rowsWritten},"query_duration_ms":${result.durationMs}}`,
  )
}
