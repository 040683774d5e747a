import { type CallOptions, type Client, SqlError } from '@batonsql/core'

/** What a column contains: the number of its values of each type, and sums that do not depend on the order of the rows. */
export interface ColumnState {
  readonly null: number
  readonly integer: number
  readonly real: number
  readonly text: number
  readonly blob: number
  /** How many of the texts and blobs are empty. */
  readonly empty: number
  /**
   * The sums of the values' numbers, of their lengths, and of five of their characters. Equal for a column under another name. A
   * change inside of a text of more than five characters, or an exchange of values between rows, may leave them equal.
   */
  readonly sums: string
}

export interface TableState {
  readonly rows: number
  /** Empty for a virtual table. */
  readonly columns: ReadonlyMap<string, ColumnState>
}

/** The schema of a database, and what its tables contain. */
export interface DatabaseState {
  /** The SQL of each table, index, view and trigger, by `type name`. */
  readonly schema: ReadonlyMap<string, string>
  readonly tables: ReadonlyMap<string, TableState>
  /** Rows that refer to a row that does not exist; null if a foreign key cannot be checked. */
  readonly brokenReferences: number | null
  /** Lines of `pragma integrity_check`, and the error of a foreign key that cannot be checked; none if all is well. */
  readonly corruptions: readonly string[]
}

/** The types of values, in the order of the expressions that count them. */
export const TYPES = ['null', 'integer', 'real', 'text', 'blob'] as const
const EXPRESSIONS_PER_COLUMN = TYPES.length + 2
/** Each has 13 aggregates; SQLite limits the columns of a statement to 2,000. */
const COLUMNS_AT_ONCE = 100
type ReadOptions = CallOptions & { readonly rowMode: 'array' }
const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** An object of the schema, and what of its contents is the user's data. */
interface SchemaObject {
  readonly type: string
  readonly name: string
  readonly sql: string
  readonly contents: 'columns' | 'rows' | 'none'
}

/** Returns the objects that a user has created, in the order in which they can be created again. */
export async function listObjects(db: Client, options: CallOptions): Promise<readonly SchemaObject[]> {
  // The tables behind virtual tables and vector indexes, those of SQLite and of the server say nothing about the user's data.
  // A virtual table that has none, such as fts5vocab, contains no data of its own.
  const { rows } = await db.execute<SchemaObject>(
    `with l as (select name, type from pragma_table_list where schema = 'main')
     select s.type, s.name, s.sql, case
       when s.type <> 'table' then 'none' when l.type = 'table' then 'columns'
       when exists (select 1 from l as of where of.type = 'shadow' and instr(of.name, s.name || '_') = 1) then 'rows'
       else 'none' end as contents
     from sqlite_schema as s left join l on l.name = s.name and s.type = 'table'
     where s.sql is not null and s.name not like 'sqlite\\_%' escape '\\' and s.name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table')
     and coalesce(l.type, '') <> 'shadow'
     and not exists (select 1 from sqlite_schema as i where i.sql like '%libsql_vector_idx%' and s.tbl_name = i.name || '_shadow')
     order by s.type <> 'table', s.rowid`,
    [],
    options,
  )
  return rows
}

/** Measures a database that no other program uses, reading every row once for each 100 columns. Sends only reads. */
export async function measureDatabase(db: Client, signal: AbortSignal): Promise<DatabaseState> {
  // without a time limit, because reading a large table takes a while
  const options = { rowMode: 'array', timeoutMs: Infinity, signal } as const
  const objects = await listObjects(db, { signal })
  const tables = new Map<string, TableState>()
  for (const { name, contents } of objects) {
    if (contents === 'columns') tables.set(name, await measureTable(db, name, options))
    if (contents === 'rows')
      tables.set(name, { rows: await countRows(db, name, options), columns: new Map() })
  }
  const { brokenReferences, mismatches } = await checkReferences(db, options)
  const { rows: lines } = await db.execute('pragma integrity_check(20)', [], options)
  return {
    schema: new Map(objects.map(({ type, name, sql }) => [`${type} ${name}`, sql])),
    tables,
    brokenReferences,
    corruptions: [...lines.map(([line]) => String(line)).filter((line) => line !== 'ok'), ...mismatches],
  }
}

/** Checks foreign keys. If one refers to columns that are not unique, SQLite checks none, and its error is returned. */
async function checkReferences(
  db: Client,
  options: ReadOptions,
): Promise<{ brokenReferences: number | null; mismatches: string[] }> {
  try {
    const { rows } = await db.execute('select count(*) from pragma_foreign_key_check', [], options)
    return { brokenReferences: Number(rows[0]?.[0]), mismatches: [] }
  } catch (error) {
    if (!(error instanceof SqlError)) throw error
    return { brokenReferences: null, mismatches: [error.message.replace(/^SQLite error: /, '')] }
  }
}

/** Returns the number of rows of a virtual table; 0 if they cannot be read, as when the table of its content is missing. */
async function countRows(db: Client, name: string, options: ReadOptions): Promise<number> {
  try {
    const { rows } = await db.execute(`select count(*) from ${quote(name)}`, [], options)
    return Number(rows[0]?.[0])
  } catch (error) {
    if (error instanceof SqlError) return 0
    throw error
  }
}

async function measureTable(db: Client, name: string, options: ReadOptions): Promise<TableState> {
  const { rows: names } = await db.execute<{ name: string }>(
    'select name from pragma_table_xinfo(?) where hidden = 0 order by cid',
    [name],
    { signal: options.signal },
  )
  const columns = new Map<string, ColumnState>()
  let count = 0
  for (let from = 0; from < names.length; from += COLUMNS_AT_ONCE) {
    const part = names.slice(from, from + COLUMNS_AT_ONCE)
    const { rows } = await db.execute(
      `select count(*), ${part.map((column) => measureColumn(quote(column.name))).join()} from ${quote(name)}`,
      [],
      options,
    )
    const [first, ...values] = rows[0] ?? []
    count = Number(first)
    for (const [index, column] of part.entries()) {
      const own = values.slice(index * EXPRESSIONS_PER_COLUMN, (index + 1) * EXPRESSIONS_PER_COLUMN)
      const [nulls, integer, real, text, blob, empty] = own.slice(0, -1).map(Number) as CountsOfColumn
      columns.set(column.name, { null: nulls, integer, real, text, blob, empty, sums: String(own.at(-1)) })
    }
  }
  return { rows: count, columns }
}

type CountsOfColumn = [number, number, number, number, number, number]

const measureColumn = (column: string): string =>
  [
    ...TYPES.map((type) => `coalesce(sum(typeof(${column}) = '${type}'), 0)`),
    `coalesce(sum(octet_length(${column}) = 0), 0)`,
    [
      // infinities of both signs have no sum
      `coalesce(total(${column}), '')`,
      `total(octet_length(${column}))`,
      `total(unicode(${column}))`,
      ...[1, 2, 3].map(
        (quarter) => `total(unicode(substr(${column}, length(${column}) * ${quarter} / 4 + 1)))`,
      ),
      `total(unicode(substr(${column}, -1)))`,
    ].join(" || ' ' || "),
  ].join()
