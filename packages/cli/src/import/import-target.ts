import type { Client } from '@batonsql/core'

/** A column of an existing table. */
export interface TargetColumn {
  readonly name: string
  readonly type: string
}

export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The table to import into. */
export class ImportTarget {
  readonly table: string
  /** Its columns; null if it does not exist. */
  readonly columns: readonly TargetColumn[] | null

  private constructor(table: string, columns: readonly TargetColumn[] | null) {
    this.table = table
    this.columns = columns
  }

  static async open(db: Client, table: string, signal: AbortSignal): Promise<ImportTarget> {
    const sql = 'select name, type from pragma_table_info(?)'
    const { rows } = await db.execute<TargetColumn>(sql, [table], { signal })
    return new ImportTarget(table, rows.length === 0 ? null : rows)
  }

  /** Finds the column for a name in the file, regardless of case. @throws Error if the existing table has no such column */
  findColumn(name: string): TargetColumn | null {
    if (this.columns === null) return null
    const column = this.columns.find((candidate) => candidate.name.toLowerCase() === name.toLowerCase())
    if (column !== undefined) return column
    throw new Error(
      `table ${this.table} has no column ${name}; its columns are ${this.columns.map((each) => each.name).join(', ')}`,
    )
  }
}
