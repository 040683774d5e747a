import type { ArrayRow, InStatement, InValue, ResultSet } from '@batonsql/core'

/** Foreign key violations before the migrations, which must not increase. */
export interface ForeignKeys {
  /** Number of rows that violate a foreign key. */
  readonly violations: number
  /** Tables with a foreign key that cannot be checked, because it references a column that is not unique. */
  readonly uncheckable: readonly string[]
  /** Whether the engine has `pragma_foreign_key_check`. */
  readonly hasCheck: boolean
}

/** Runs statements in one request. @returns null for each that the database rejects */
export type RunTogether = (statements: readonly InStatement[]) => Promise<(ResultSet<ArrayRow> | null)[]>

// the engine cannot read the columns and keys of a table with a quote in its name
const TABLES = `(select name from sqlite_schema where type = 'table' and instr(name, '"') = 0) s`
const UNREADABLE_TABLES = `select name from sqlite_schema where type = 'table' and instr(name, '"') > 0`
const COLUMNS = `select s.name, t.name from ${TABLES} left join pragma_table_info(s.name) t on t.pk > 0
  order by s.name, t.pk`
const KEYS = `select s.name, f.id, f."table", f."from", f."to"
  from ${TABLES} join pragma_foreign_key_list(s.name) f order by s.name, f.id, f.seq`

interface ForeignKey {
  readonly table: string
  readonly parent: string
  readonly columns: { readonly from: string; readonly to: string | undefined }[]
}

/** For an engine without `pragma foreign_key_check`: counts the rows that violate a foreign key, with a query for each key. */
export async function countViolations(run: RunTogether): Promise<ForeignKeys> {
  const [columns, keys, unreadable] = await run([COLUMNS, KEYS, UNREADABLE_TABLES])
  if (!columns || !keys || !unreadable) throw new Error('the foreign keys of the database cannot be listed')
  /** The columns of each table's primary key. */
  const primaryKeys = new Map<string, string[]>()
  for (const [table, column] of columns.rows as [string, string | null][]) {
    const key = primaryKeys.get(table.toLowerCase()) ?? []
    primaryKeys.set(table.toLowerCase(), column === null ? key : [...key, column])
  }
  const foreignKeys = new Map<string, ForeignKey>()
  for (const [table, id, parent, from, to] of keys.rows as [string, InValue, string, string, string][]) {
    const name = JSON.stringify([table, Number(id)])
    const foreignKey: ForeignKey = foreignKeys.get(name) ?? { table, parent, columns: [] }
    const primaryKey = primaryKeys.get(parent.toLowerCase())
    foreignKey.columns.push({ from, to: to || primaryKey?.[foreignKey.columns.length] })
    foreignKeys.set(name, foreignKey)
  }
  const keyList = [...foreignKeys.values()]
  const counts = await run(keyList.map((key) => countQuery(key, primaryKeys.has(key.parent.toLowerCase()))))
  return {
    violations: counts.reduce((sum, count) => sum + Number(count?.rows[0]?.[0] ?? 0), 0),
    uncheckable: [
      ...new Set(keyList.filter((_, index) => counts[index] === null).map(({ table }) => table)),
      ...unreadable.rows.map(([name]) => name as string),
    ],
    hasCheck: false,
  }
}

const quote = (name = ''): string => `"${name.replaceAll('"', '""')}"`

function countQuery({ table, parent, columns }: ForeignKey, parentExists: boolean): string {
  const notNullConditions = columns.map(({ from }) => `c.${quote(from)} is not null`)
  // the parent's column first: its collation applies
  const matchConditions = columns.map(({ from, to }) => `p.${quote(to)} = c.${quote(from)}`)
  const notExists = parentExists
    ? ` and not exists (select 1 from ${quote(parent)} p where ${matchConditions.join(' and ')})`
    : ''
  return `select count(*) from ${quote(table)} c where ${notNullConditions.join(' and ')}${notExists}`
}
