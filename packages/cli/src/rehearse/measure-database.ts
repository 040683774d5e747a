import type { Client, Transaction } from '@batonsql/core'

/** What a column contains: the number of its values of each type. */
export interface ColumnCounts {
  readonly null: number
  readonly integer: number
  readonly real: number
  readonly text: number
  readonly blob: number
}

export interface TableState {
  readonly rows: number
  readonly columns: ReadonlyMap<string, ColumnCounts>
}

/** The schema of a database, and what its tables contain. */
export interface DatabaseState {
  /** The SQL of each table, index, view and trigger, by `type name`. */
  readonly schema: ReadonlyMap<string, string>
  readonly tables: ReadonlyMap<string, TableState>
  /** Rows that refer to a row that does not exist. */
  readonly brokenReferences: number
  /** Lines of `pragma integrity_check`; none if all is well. */
  readonly corruptions: readonly string[]
}

const TYPES = ['null', 'integer', 'real', 'text', 'blob'] as const
/** SQLite limits the columns of a result to 2,000. */
const COLUMNS_AT_ONCE = 300
const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Measures a database in one transaction, reading every row once for each 300 columns. Sends only reads. */
export function measureDatabase(db: Client): Promise<DatabaseState> {
  return db.transaction(
    async (tx) => {
      // the tables of virtual tables, of SQLite and of the server say nothing about the user's data
      const { rows: objects } = await tx.execute<{
        type: string
        name: string
        sql: string
        isTable: number
      }>(
        `select s.type, s.name, s.sql, s.type = 'table' and l.type = 'table' as isTable from sqlite_schema s
         left join pragma_table_list l on l.schema = 'main' and l.name = s.name and s.type = 'table'
         where s.sql is not null and s.name not like 'sqlite\\_%' escape '\\' and s.name not like 'libsql\\_%' escape '\\'
         and coalesce(l.type, '') <> 'shadow' order by s.type, s.name`,
      )
      const tables = new Map<string, TableState>()
      for (const { name, isTable } of objects) {
        if (isTable !== 1) continue
        tables.set(name, await measureTable(tx, name))
      }
      const { rows: references } = await tx.execute<{ n: number }>(
        'select count(*) as n from pragma_foreign_key_check',
        [],
        { timeoutMs: Infinity },
      )
      const { rows: lines } = await tx.execute<{ integrity_check: string }>(
        'pragma integrity_check(20)',
        [],
        {
          timeoutMs: Infinity,
        },
      )
      return {
        schema: new Map(objects.map(({ type, name, sql }) => [`${type} ${name}`, sql])),
        tables,
        brokenReferences: references[0]?.n ?? 0,
        corruptions: lines.map((line) => line.integrity_check).filter((line) => line !== 'ok'),
      }
    },
    { mode: 'readonly' },
  )
}

async function measureTable(tx: Transaction, name: string): Promise<TableState> {
  const { rows: columns } = await tx.execute<{ name: string }>(
    'select name from pragma_table_xinfo(?) where hidden <> 1 order by cid',
    [name],
  )
  const values: number[] = []
  let count = 0
  for (let from = 0; from < columns.length; from += COLUMNS_AT_ONCE) {
    const counts = columns
      .slice(from, from + COLUMNS_AT_ONCE)
      .flatMap((column) => TYPES.map((type) => `coalesce(sum(typeof(${quote(column.name)}) = '${type}'), 0)`))
    const { rows } = await tx.execute(
      `select count(*), ${counts.join()} from ${quote(name)}`,
      [],
      // a large table takes a while
      { rowMode: 'array', timeoutMs: Infinity },
    )
    const [first = 0, ...others] = (rows[0] ?? []).map(Number)
    count = first
    values.push(...others)
  }
  return {
    rows: count,
    columns: new Map(
      columns.map((column, index) => [
        column.name,
        Object.fromEntries(
          TYPES.map((type, offset) => [type, values[index * TYPES.length + offset] ?? 0]),
        ) as unknown as ColumnCounts,
      ]),
    ),
  }
}
