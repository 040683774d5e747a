import type { ArrayRow, InStatement, ResultSet, Value } from '@batonsql/core'
import { failWhen } from '@batonsql/core/adapter'

// Violations are counted in one of three ways: of all tables at once (`COUNT_VIOLATIONS`); of each table, if one of them makes that
// fail (`checkTableByTable`); or of each foreign key, if the engine has no check, as Turso's (`countViolations`).

/** The violations of foreign keys at one moment; migrations must not add any. */
export interface ForeignKeys {
  /** Number of violations: a row that violates two foreign keys counts twice. */
  readonly violations: number
  /**
   * Tables whose foreign keys cannot be checked, for example because one references a column that is not unique. On an engine without
   * the check, also every table with a quote in its name.
   */
  readonly uncheckable: readonly string[]
  /** Whether the engine has `pragma_foreign_key_check`. */
  readonly hasCheck: boolean
}

/** Runs statements in one request. @returns null for each that the database rejects */
export type RunTogether = (statements: readonly InStatement[]) => Promise<(ResultSet<ArrayRow> | null)[]>

/** SQL for the number of rows that violate a foreign key; fails if one of the tables cannot be checked. */
export const COUNT_VIOLATIONS = '(select count(*) from pragma_foreign_key_check)'

/** Fails in an engine without `pragma_foreign_key_check`. */
const PROBE_CHECK = "select count(*) from pragma_foreign_key_check('sqlite_schema')"

const TABLES = "select name from sqlite_schema where type = 'table'"

/** Counts the violations of each table, or of each foreign key if the engine has no check. */
export async function checkTableByTable(run: RunTogether): Promise<ForeignKeys> {
  const [tables, check] = await run([TABLES, PROBE_CHECK])
  if (!check) return await countViolations(run)
  if (!tables) throw new Error('the tables of the database cannot be listed')
  const names = tables.rows.map(([name]) => name as string)
  const counts = await run(
    names.map((name) => ({ sql: 'select count(*) from pragma_foreign_key_check(?)', args: [name] })),
  )
  return {
    violations: sumOf(counts),
    uncheckable: names.filter((_, index) => counts[index] === null),
    hasCheck: true,
  }
}

/**
 * Returns a statement that fails if there are more violations than before. It checks all tables that exist after the migrations,
 * except those that could not be checked before.
 */
export function failIfMoreViolations({ violations, uncheckable }: ForeignKeys): InStatement {
  const count = `(select count(*) from sqlite_schema s cross join pragma_foreign_key_check(s.name)
      where s.type = 'table' and s.name not in (select value from json_each(?)))`
  return {
    sql: `select ${failWhen(`${count} > ${violations}`, 'foreign keys')}`,
    args: [JSON.stringify(uncheckable)],
  }
}

// Turso's engine cannot read the columns and keys of a table with a quote in its name
const READABLE_TABLES = `(${TABLES} and instr(name, '"') = 0) s`
const UNREADABLE_TABLES = `${TABLES} and instr(name, '"') > 0`
const COLUMNS = `select s.name, t.name from ${READABLE_TABLES} left join pragma_table_info(s.name) t on t.pk > 0
  order by s.name, t.pk`
const KEYS = `select s.name, f.id, f."table", f."from", f."to"
  from ${READABLE_TABLES} join pragma_foreign_key_list(s.name) f order by s.name, f.id, f.seq`

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
  const tables = new Set([
    ...primaryKeys.keys(),
    ...unreadable.rows.map(([name]) => (name as string).toLowerCase()),
  ])
  const foreignKeys = new Map<string, ForeignKey>()
  for (const [table, id, parent, from, to] of keys.rows as [string, Value, string, string, string | null][]) {
    const key = JSON.stringify([table, Number(id)])
    const foreignKey: ForeignKey = foreignKeys.get(key) ?? { table, parent, columns: [] }
    // without a column, it references the primary key
    const primaryKey = primaryKeys.get(parent.toLowerCase())
    foreignKey.columns.push({ from, to: to || primaryKey?.[foreignKey.columns.length] })
    foreignKeys.set(key, foreignKey)
  }
  const keyList = [...foreignKeys.values()]
  const counts = await run(keyList.map((key) => countQuery(key, tables.has(key.parent.toLowerCase()))))
  return {
    violations: sumOf(counts),
    uncheckable: [
      ...new Set(keyList.filter((_, index) => counts[index] === null).map(({ table }) => table)),
      ...unreadable.rows.map(([name]) => name as string),
    ],
    hasCheck: false,
  }
}

const sumOf = (counts: Awaited<ReturnType<RunTogether>>): number =>
  counts.reduce((sum, count) => sum + Number(count?.rows[0]?.[0] ?? 0), 0)

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

function countQuery({ table, parent, columns }: ForeignKey, parentExists: boolean): string {
  const notNullConditions = columns.map(({ from }) => `c.${quote(from)} is not null`)
  // the parent's column first: its collation applies
  // a column that does not exist makes the query fail, so that the table counts as one that cannot be checked
  const matchConditions = columns.map(({ from, to = '' }) => `p.${quote(to)} = c.${quote(from)}`)
  // without the parent table, every row with a key is a violation
  const notExists = parentExists
    ? ` and not exists (select 1 from ${quote(parent)} p where ${matchConditions.join(' and ')})`
    : ''
  return `select count(*) from ${quote(table)} c where ${notNullConditions.join(' and ')}${notExists}`
}
