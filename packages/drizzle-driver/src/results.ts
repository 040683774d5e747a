import type { ArrayRow, ObjectRow, ResultSet } from '@batonsql/core'

/** The result of `run()`, and of every statement without rows. */
export interface RunResult {
  readonly columns: readonly string[]
  /** Types as declared in the schema; an empty string for expressions. */
  readonly columnTypes: readonly string[]
  readonly rows: ObjectRow[]
  readonly rowsAffected: number
  /** Rowid of the last inserted row; undefined if there is none, or if an upsert may have updated a row instead. */
  readonly lastInsertRowid: bigint | undefined
  /** Not enumerable; used by JSON.stringify, which does not support bigint: each one becomes a string of digits. */
  toJSON(): unknown
}

/** Returns rows keyed by column name. If columns have the same name, the last one wins; `values()` keeps them apart. */
export const objectRows = ({ columns, rows }: ResultSet<ArrayRow>): ObjectRow[] =>
  // unlike an assignment, this also defines a property named `__proto__`
  rows.map((row) => Object.fromEntries(row.map((value, index) => [columns[index], value])) as ObjectRow)

export function runResult(result: ResultSet<ArrayRow>): RunResult {
  const fields = {
    columns: result.columns,
    columnTypes: result.columnTypes.map((type) => type ?? ''),
    rows: objectRows(result),
    rowsAffected: result.rowsAffected,
    lastInsertRowid: result.lastInsertRowid ?? undefined,
  }
  const toJSON = (): unknown =>
    JSON.parse(
      JSON.stringify({ ...fields }, (_, value) => (typeof value === 'bigint' ? String(value) : value)),
    )
  return Object.defineProperty(fields, 'toJSON', { value: toJSON }) as unknown as RunResult
}
