import { type Cell, execute } from './database-client.ts'

/** A table or a view. */
export interface Table {
  readonly name: string
  readonly type: string
  /** Null for views, which may take arbitrarily long to count, and for tables that cannot be counted. */
  readonly count: number | null
  readonly hasRowid: boolean
}

/** A page of rows, whose long values are truncated. */
export interface TablePage {
  readonly columns: readonly string[]
  readonly rows: readonly TableRow[]
}

export interface TableRow {
  readonly cells: readonly Cell[]
  /** Full length of each truncated value, in bytes; null for other values. */
  readonly lengths: readonly (number | null)[]
  /** Null if the row has none. */
  readonly rowid: Cell | null
  readonly offset: number
}

/** The column by which rows are sorted. */
export interface Order {
  readonly column: string
  readonly isDescending: boolean
}

export const PAGE_ROWS = 100
/** Values are truncated to this length in the list. */
const MAX_LIST_LENGTH = 200

/** Lists tables and views. The columns of views are not looked up, because that fails if one of their tables is missing. */
const LIST_TABLES_SQL = `select name, type, case when wr = 0 and type = 'table' then not exists
    (select 1 from pragma_table_xinfo(t.name) where name = '_rowid_' collate nocase) else 0 end as rowids
  from pragma_table_list as t
  where schema = 'main' and type in ('table', 'view', 'virtual') and name not like 'sqlite\\_%' escape '\\'
    and name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table')
  order by name`

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`
const getText = (cell: Cell | undefined): string => (cell && 'value' in cell ? String(cell.value) : '')
const textCell = (value: string): Cell => ({ type: 'text', value })
const integerCell = (value: number): Cell => ({ type: 'integer', value: String(value) })

/** Lists tables with their row counts, and views. */
export async function listTables(database: string): Promise<readonly Table[]> {
  const { rows } = await execute(database, LIST_TABLES_SQL)
  return await Promise.all(
    rows.map(async ([name, type, rowids]) => ({
      name: getText(name),
      type: getText(type),
      hasRowid: getText(rowids) === '1',
      count: getText(type) === 'view' ? null : await countRows(database, getText(name)),
    })),
  )
}

async function countRows(database: string, table: string): Promise<number | null> {
  try {
    const { rows } = await execute(database, `select count(*) from ${quote(table)}`)
    return Number(getText(rows[0]?.[0]))
  } catch {
    return null
  }
}

const orderBy = (order: Order | null): string =>
  order === null ? '' : ` order by ${quote(order.column)}${order.isDescending ? ' desc' : ''}`

/** Returns the statement that reads a whole table. */
export const selectAll = (table: Table, order: Order | null): string =>
  `select * from ${quote(table.name)}${orderBy(order)}`

/** Reads a page of a table. @param page from 0 */
export async function readPage(
  database: string,
  table: Table,
  page: number,
  order: Order | null,
): Promise<TablePage> {
  const names = await listColumns(database, table.name)
  const columns = names.map(quote)
  // `length` and `substr` of a text stop at U+0000; a character has at most 4 bytes; numbers are shorter
  const isLong = (column: string): string =>
    `octet_length(${column}) > ${4 * MAX_LIST_LENGTH} or length(${column}) > ${MAX_LIST_LENGTH}`
  const list = [
    ...columns.map(
      (column) =>
        `case when ${isLong(column)} then substr(${column}, 1, ${MAX_LIST_LENGTH}) else ${column} end`,
    ),
    ...columns.map((column) => `case when ${isLong(column)} then octet_length(${column}) end`),
    ...(table.hasRowid ? ['_rowid_'] : []),
  ]
  const sql = `select ${list.join(', ')} from ${quote(table.name)}${orderBy(order)} limit ${PAGE_ROWS} offset ?`
  const first = page * PAGE_ROWS
  const { rows } = await execute(database, sql, [integerCell(first)])
  return {
    columns: names,
    rows: rows.map((row, index) => ({
      cells: row.slice(0, names.length),
      lengths: row
        .slice(names.length, 2 * names.length)
        .map((cell) => (cell.type === 'null' ? null : Number(getText(cell)))),
      rowid: table.hasRowid ? (row[2 * names.length] ?? null) : null,
      offset: first + index,
    })),
  }
}

async function listColumns(database: string, table: string): Promise<readonly string[]> {
  const sql = 'select name from pragma_table_xinfo(?) where hidden <> 1'
  const { rows } = await execute(database, sql, [textCell(table)])
  return rows.map(([name]) => getText(name))
}

/** Reads a value in full. @param order the order of the list @throws Error if another row is now in its place */
// oxlint-disable-next-line max-params
export async function readCell(
  database: string,
  table: Table,
  row: TableRow,
  column: string,
  order: Order | null,
): Promise<Cell | null> {
  const from = quote(table.name)
  // selects all columns, so that rows come in the same order as in the list, not in the order of an index
  const { columns, rows } =
    row.rowid === null
      ? await execute(database, `select * from (${selectAll(table, order)} limit 1 offset ?)`, [
          integerCell(row.offset),
        ])
      : await execute(database, `select ${quote(column)} from ${from} where _rowid_ = ?`, [row.rowid])
  const values = rows[0] ?? []
  if (row.rowid === null && rows[0] && !isSameRow(row, values))
    throw new Error('The rows have changed since they were listed: open the table again.')
  return values[row.rowid === null ? columns.indexOf(column) : 0] ?? null
}

/** Whether a row begins with the values in the list. A long blob is not compared. */
function isSameRow({ cells, lengths }: TableRow, values: readonly Cell[]): boolean {
  return cells.every((cell, index) => {
    const value = values[index]
    if (lengths[index] == null) return JSON.stringify(value) === JSON.stringify(cell)
    return value?.type === 'text' ? getText(value).startsWith(getText(cell)) : value?.type === cell.type
  })
}
