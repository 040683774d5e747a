import { SqlError } from '@batonsql/core'
import {
  type ColumnMetadata,
  type DatabaseMetadataOptions,
  type Expression,
  type Kysely,
  type RawBuilder,
  type SqlBool,
  SqliteIntrospector,
  sql,
  type TableMetadata,
} from 'kysely'

interface TablesOptions extends DatabaseMetadataOptions {
  /** Since Kysely 0.30. */
  readonly where?: (refs: { readonly table: Expression<string> }) => Expression<SqlBool>
}

/** An integer, whose type depends on the client's `intMode`. */
type Integer = number | bigint | string

interface ColumnRow {
  readonly table: string
  readonly isView: Integer
  /** Whether the primary key has its own index, as every key except the rowid does. */
  readonly hasKeyIndex: Integer
  readonly name: string | null
  readonly type: string
  readonly notnull: Integer
  readonly hasDefault: Integer
  readonly pk: Integer
  readonly hidden: Integer
}

/**
 * Reads tables, views and their columns in one query. Unlike Kysely's own introspector, it includes generated columns, and omits
 * internal tables of SQLite, of the server and of virtual tables. A view that cannot be read, because it refers to a table that does
 * not exist, has no columns; then each view takes a query.
 */
export class BatonIntrospector extends SqliteIntrospector {
  readonly #db: Kysely<unknown>

  constructor(db: Kysely<unknown>) {
    super(db)
    this.#db = db
  }

  override async getTables(
    options: TablesOptions = { withInternalKyselyTables: false },
  ): Promise<TableMetadata[]> {
    const rows = await this.#readColumns(options).catch((error: unknown) => {
      if (isUnreadable(error)) return this.#readSeparately(options)
      throw error
    })
    return Array.from(Map.groupBy(rows, (row) => row.table).values(), toTable)
  }

  /** Reads tables with their columns. Rejects if the columns of one cannot be read. */
  async #readColumns(options: TablesOptions, filter: RawBuilder<unknown> = sql``): Promise<ColumnRow[]> {
    const { rows } = await sql<ColumnRow>`
      select t.name as "table", t.type = 'view' as "isView",
        exists (select 1 from pragma_index_list(t.name) where origin = 'pk') as "hasKeyIndex", c.name, c.type, c."notnull",
        c.dflt_value is not null as "hasDefault", c.pk, c.hidden
      from pragma_table_list as t
      left join pragma_table_xinfo(t.name) as c on c.hidden <> 1
      where ${isUserTable(options)} ${filter}
      order by t.name, c.cid`.execute(this.#db)
    return rows
  }

  /** Reads each view and virtual table with a query of its own. One that cannot be read has no columns. */
  async #readSeparately(options: TablesOptions): Promise<ColumnRow[]> {
    const { rows: others } =
      await sql<ColumnRow>`select t.name as "table", t.type = 'view' as "isView", null as name
      from pragma_table_list as t where ${isUserTable(options)} and t.type <> 'table'`.execute(this.#db)
    const tables = await Promise.all([
      this.#readColumns(options, sql`and t.type = 'table'`),
      ...others.map((other) =>
        this.#readColumns(options, sql`and t.name = ${other.table}`).catch((error: unknown) => {
          if (isUnreadable(error)) return [other]
          throw error
        }),
      ),
    ])
    return tables.flat().sort((a, b) => (a.table < b.table ? -1 : Number(a.table > b.table)))
  }
}

/** Whether the SQL of a view or a virtual table is invalid. Other errors, such as SQLITE_BUSY, concern the whole call. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof SqlError && (error.code === 'SQLITE_UNKNOWN' || error.code.startsWith('SQL_'))

function isUserTable({ withInternalKyselyTables, where }: TablesOptions): RawBuilder<unknown> {
  const internalTables = withInternalKyselyTables
    ? sql``
    : sql`and t.name not in ('kysely_migration', 'kysely_migration_lock')`
  const condition = where ? sql`and (${where({ table: sql.ref('t.name') })})` : sql``
  return sql`t.schema = 'main' and t.type in ('table', 'view', 'virtual') and t.name not like 'sqlite\\_%' escape '\\'
        and t.name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table', '_litestream_seq', '_litestream_lock')
        and t.name not like '\\_\\_turso\\_internal\\_%' escape '\\'
        and t.name not in (select name || '_shadow' from sqlite_schema where sql like '%libsql_vector_idx%') ${internalTables} ${condition}`
}

function toTable(rows: readonly ColumnRow[]): TableMetadata {
  const [table] = rows as [ColumnRow]
  const columns = rows.filter((row) => row.name !== null)
  const primaryKey = columns.filter((column) => Number(column.pk) > 0)
  const [key] = primaryKey
  // `integer primary key desc`, because of an old bug in SQLite, and any key of a WITHOUT ROWID table are ordinary columns
  const isRowid =
    primaryKey.length === 1 && key?.type.toLowerCase() === 'integer' && Number(table.hasKeyIndex) === 0
  return {
    name: table.table,
    isView: Number(table.isView) === 1,
    isForeign: false,
    columns: columns.map(
      (column) =>
        ({
          name: column.name as string,
          dataType: column.type,
          isNullable: Number(column.notnull) === 0,
          isAutoIncrementing: isRowid && column === key,
          // an INSERT must not set a generated column
          hasDefaultValue: Number(column.hasDefault) === 1 || Number(column.hidden) > 1,
          // as in Kysely's own introspector
          comment: undefined,
        }) as object as ColumnMetadata,
    ),
  }
}
