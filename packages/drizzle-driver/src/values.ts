import type { ArrayRow, InValue, ObjectRow, ResultSet } from '@batonsql/core'

/** What `run()` gives, and every statement without a result of its own. */
export interface RunResult {
  readonly columns: readonly string[]
  /** Types as declared in the schema; an empty string for expressions. */
  readonly columnTypes: readonly string[]
  readonly rows: ObjectRow[]
  readonly rowsAffected: number
  /** Rowid of the last row that was inserted; undefined when none was. */
  readonly lastInsertRowid: bigint | undefined
  /** Not enumerable; makes JSON.stringify possible, which knows no bigint. */
  toJSON(): unknown
}

/** A raw parameter as the server takes it: a Date becomes its milliseconds since 1970, as Drizzle's users know it. */
export const toParam = (value: unknown): InValue =>
  value instanceof Date ? value.getTime() : (value as InValue)

/** Rows by column name. Of columns with the same name the last one stays; `values()` keeps them apart. */
export const objectRows = ({ columns, rows }: ResultSet<ArrayRow>): ObjectRow[] =>
  // makes a property of `__proto__`, too
  rows.map((row) => Object.fromEntries(row.map((value, at) => [columns[at], value])) as ObjectRow)

export function runResult(result: ResultSet<ArrayRow>): RunResult {
  const run = {
    columns: result.columns,
    columnTypes: result.columnTypes.map((type) => type ?? ''),
    rows: objectRows(result),
    rowsAffected: result.rowsAffected,
    lastInsertRowid: result.lastInsertRowid ?? undefined,
  }
  const toJSON = (): unknown => ({ ...run, lastInsertRowid: run.lastInsertRowid?.toString() })
  return Object.defineProperty(run, 'toJSON', { value: toJSON }) as unknown as RunResult
}
