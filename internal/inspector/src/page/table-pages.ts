import { type Cell, execute, executeAll, type Result } from './database-client.ts'

/** A table or a view. */
export interface Table {
  readonly name: string
  readonly type: string
  /** Null for views, which may take arbitrarily long to count, and for tables that cannot be counted. */
  readonly count: number | null
  /** Whether its rows have a rowid. */
  readonly hasRowid: boolean
}

/** A page of rows, whose long values are truncated. */
export interface TablePage {
  readonly columns: readonly string[]
  readonly rows: readonly TableRow[]
}

export interface TableRow {
  readonly cells: readonly Cell[]
  /** Full length of each truncated value, in characters of text or bytes of a blob; null for other values. */
  readonly lengths: readonly (number | null)[]
  /** Null if the row has none. */
  readonly rowid: Cell | null
  /** Position in the table. */
  readonly offset: number
}

export const PAGE_ROWS = 100
/** Values are truncated to this length in the list. */
const LIST_LENGTH = 200

/** Does not look up the columns of views, because that fails if one of their tables is missing. */
const TABLES = `select name, type, case when wr = 0 and type = 'table' then not exists
    (select 1 from pragma_table_xinfo(t.name) where name = '_rowid_' collate nocase) else 0 end as rowids
  from pragma_table_list as t
  where schema = 'main' and type in ('table', 'view', 'virtual') and name not like 'sqlite\\_%' escape '\\'
    and name not like 'libsql\\_%' escape '\\'
  order by name`

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
const textOf = (cell: Cell | undefined): string => (cell && 'value' in cell ? String(cell.value) : '')
const text = (value: string): Cell => ({ type: 'text', value })
const integer = (value: number): Cell => ({ type: 'integer', value: String(value) })

/** Lists tables with their row counts, and views. */
export async function listTables(database: string): Promise<readonly Table[]> {
  const { rows } = await execute(database, TABLES)
  return await Promise.all(
    rows.map(async ([name, type, rowids]) => ({
      name: textOf(name),
      type: textOf(type),
      hasRowid: textOf(rowids) === '1',
      count: textOf(type) === 'view' ? null : await countRows(database, textOf(name)),
    })),
  )
}

async function countRows(database: string, table: string): Promise<number | null> {
  try {
    const { rows } = await execute(database, `select count(*) from ${quoted(table)}`)
    return Number(textOf(rows[0]?.[0]))
  } catch {
    return null
  }
}

/** Reads a page of a table. @param page from 0 */
export async function readPage(database: string, table: Table, page: number): Promise<TablePage> {
  const names = await columnsOf(database, table.name)
  const columns = names.map(quoted)
  const isLong = (column: string): string =>
    `typeof(${column}) in ('text', 'blob') and length(${column}) > ${LIST_LENGTH}`
  const list = [
    ...columns.map(
      (column) => `case when ${isLong(column)} then substr(${column}, 1, ${LIST_LENGTH}) else ${column} end`,
    ),
    ...columns.map((column) => `case when ${isLong(column)} then length(${column}) end`),
    ...(table.hasRowid ? ['_rowid_'] : []),
  ]
  const sql = `select ${list.join(', ')} from ${quoted(table.name)} limit ${PAGE_ROWS} offset ?`
  const first = page * PAGE_ROWS
  const { rows } = await execute(database, sql, [integer(first)])
  return {
    columns: names,
    rows: rows.map((row, at) => ({
      cells: row.slice(0, names.length),
      lengths: row
        .slice(names.length, 2 * names.length)
        .map((cell) => (cell.type === 'null' ? null : Number(textOf(cell)))),
      rowid: table.hasRowid ? (row[2 * names.length] ?? null) : null,
      offset: first + at,
    })),
  }
}

async function columnsOf(database: string, table: string): Promise<readonly string[]> {
  const sql = 'select name from pragma_table_xinfo(?) where hidden <> 1'
  const { rows } = await execute(database, sql, [text(table)])
  return rows.map(([name]) => textOf(name))
}

/** Reads a whole value. @throws Error if another row is now in its place */
export async function readCell(
  database: string,
  table: Table,
  row: TableRow,
  column: string,
): Promise<Cell | null> {
  const from = quoted(table.name)
  // selects all columns, so that rows come in the same order as in the list, not in the order of an index
  const [result] = await executeAll(database, [
    row.rowid === null
      ? [`select * from (select * from ${from} limit 1 offset ?)`, [integer(row.offset)]]
      : [`select ${quoted(column)} from ${from} where _rowid_ = ?`, [row.rowid]],
  ])
  const { columns, rows } = result as Result
  const found = rows[0] ?? []
  if (row.rowid === null && rows[0] && !isSameRow(row, found))
    throw new Error('The rows have changed since they were listed: open the table again.')
  return found[row.rowid === null ? columns.indexOf(column) : 0] ?? null
}

/** Whether a row begins with the values in the list. A long blob is not compared. */
function isSameRow({ cells, lengths }: TableRow, found: readonly Cell[]): boolean {
  return cells.every((cell, at) => {
    const whole = found[at]
    if (lengths[at] == null) return JSON.stringify(whole) === JSON.stringify(cell)
    return whole?.type === 'text' ? textOf(whole).startsWith(textOf(cell)) : whole?.type === cell.type
  })
}
