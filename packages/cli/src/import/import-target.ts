import type { Client } from '@batonsql/core'

export interface TargetColumn {
  readonly name: string
  readonly type: string
}

/** Time limit of counting the rows of a table, which only the report needs, in ms. */
const COUNT_MS = 5_000

export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`

export class ImportTarget {
  readonly table: string
  /** Its columns; null if it does not exist. */
  readonly columns: readonly TargetColumn[] | null

  private constructor(table: string, columns: readonly TargetColumn[] | null) {
    this.table = table
    this.columns = columns
  }

  static async open(db: Client, table: string, signal: AbortSignal): Promise<ImportTarget> {
    // in a STRICT table, a column of type ANY converts no values, like a column without a type; in other tables, it does
    const isStrict = 'exists (select 1 from pragma_table_list(?1) where strict)'
    const sql = `select name, iif(type like 'any' and ${isStrict}, '', type) as type from pragma_table_info(?1)`
    const { rows } = await db.execute<TargetColumn>(sql, [table], { signal })
    return new ImportTarget(table, rows.length === 0 ? null : rows)
  }

  /** Returns the number of its rows; null if it does not exist, or if counting takes too long. */
  async countRows(db: Client, signal: AbortSignal): Promise<number | null> {
    if (this.columns === null) return null
    try {
      const sql = `select count(*) as n from ${quoteName(this.table)}`
      const { rows } = await db.execute<{ n: number | bigint }>(sql, [], { signal, timeoutMs: COUNT_MS })
      return Number(rows[0]?.n)
    } catch {
      signal.throwIfAborted()
      return null
    }
  }

  /**
   * Finds the column for a name in the file, regardless of case.
   * @param notes added to the error
   * @throws Error if the existing table has no such column
   */
  findColumn(name: string, notes: readonly string[]): TargetColumn | null {
    if (this.columns === null) return null
    const column = this.columns.find((candidate) => candidate.name.toLowerCase() === name.toLowerCase())
    if (column !== undefined) return column
    const columns = this.columns.map((each) => each.name).join(', ')
    throw new Error(
      [`table ${this.table} has no column ${name}; its columns are ${columns}`, ...notes].join('\n'),
    )
  }
}
