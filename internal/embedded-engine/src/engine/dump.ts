import { scanSql } from '@batonsql/server-common/sql'
import { toText } from '../protocol/json-text.ts'
import { CHUNK_SIZE, ChunkedText, type TextOutput } from './chunked-text.ts'
import { MAX_STORED_BYTES } from './limits.ts'
import { type SqliteConnection, SqliteError, type SqliteStatement } from './sqlite-connection.ts'

const READ_GRANT = { write: false, configure: true } as const
/** Possible names of a table's row id, in the order in which libsql-server tries them. */
const ROW_IDS = ['rowid', 'oid', '_rowid_'] as const

const TABLES = `SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql NOT NULL
  ORDER BY name = 'sqlite_sequence', rowid`
const OTHER_OBJECTS = `SELECT name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger', 'view') AND sql NOT NULL
  ORDER BY rowid`

/**
 * Writes a database as statements that recreate it: tables with their rows, then indexes, triggers and views. The layout is that of
 * libsql-server; values are written so that they are restored exactly. The connection must be in a transaction, so that the dump is
 * a snapshot. If a table cannot be read, the text ends with a comment that contains the error, and ROLLBACK.
 */
export async function writeDump(
  engine: SqliteConnection,
  preserveRowIds: boolean,
  output: TextOutput,
): Promise<void> {
  const text = new ChunkedText(output)
  await text.add('PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n')
  try {
    await addObjects(text, engine, preserveRowIds)
    await text.add('COMMIT;\n')
  } catch (error) {
    // for example a missing collation; reported in the text, as by sqlite3, because the response has already begun
    if (!(error instanceof SqliteError)) throw error
    await text.add(`/* ERROR: ${error.message.replaceAll('*/', '* /')} */\nROLLBACK; -- due to errors\n`)
  }
  await text.flush()
}

async function addObjects(
  text: ChunkedText,
  engine: SqliteConnection,
  preserveRowIds: boolean,
): Promise<void> {
  let hasVirtualTables = false
  try {
    for (const [name = '', sql = ''] of readTexts(engine, TABLES)) {
      if (isVirtual(sql)) {
        if (!hasVirtualTables) await text.add('PRAGMA writable_schema=ON;\n')
        hasVirtualTables = true
        const values = ["'table'", literal(name), literal(name), 0, literal(sql)]
        // without a space, as in sqlite3: libsql-server has one, and does not double the quotes of the values
        await text.add(
          `INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES(${values.join()});\n`,
        )
      } else if (name === 'sqlite_sequence') {
        await text.add('DELETE FROM sqlite_sequence;\n')
        await addRows(text, engine, name, preserveRowIds)
      } else if (/^sqlite_stat.$/.test(name)) {
        await text.add('ANALYZE sqlite_schema;\n')
        await addRows(text, engine, name, preserveRowIds)
      } else if (!name.startsWith('sqlite_')) {
        // as in libsql-server
        await text.add(withSemicolon(sql.replace(/^CREATE TABLE /, 'CREATE TABLE IF NOT EXISTS ')))
        await addRows(text, engine, name, preserveRowIds)
      }
    }
    for (const [, sql = ''] of readTexts(engine, OTHER_OBJECTS)) await text.add(withSemicolon(sql))
  } finally {
    // also after an error, because the setting outlasts the ROLLBACK
    if (hasVirtualTables) await text.add('PRAGMA writable_schema=OFF;\n')
  }
}

async function addRows(
  text: ChunkedText,
  engine: SqliteConnection,
  table: string,
  preserveRowIds: boolean,
): Promise<void> {
  // pragma_table_info has no generated columns
  const columns = readTexts(engine, `SELECT name FROM pragma_table_info(${literal(table)})`).flat()
  // libsql-server preserves the row ids of a table with a separate integer key in any case
  const needsRowId = hasRowId(engine, table) && (preserveRowIds || hasSeparateIntegerKey(engine, table))
  const rowId = needsRowId ? findFreeRowId(engine, table) : null
  const selectedColumns = [...(rowId === null ? [] : [rowId]), ...columns.map(quote)]
  // in the text of the dump, names are quoted only if necessary, as by libsql-server
  const target = engine.quoteIdentifier(table)
  const columnList =
    rowId === null ? '' : `(${[rowId, ...columns.map((name) => engine.quoteIdentifier(name))].join()})`
  const statement = prepareRows(engine, table, selectedColumns)
  try {
    for (;;) {
      const next = statement.dumpRows(`INSERT INTO ${target}${columnList} VALUES`, CHUNK_SIZE)
      await text.add(next.text)
      if (next.isDone) return
    }
  } finally {
    statement.finalize()
  }
}

/** @throws SqliteError that names the table, if it needs a collation that is missing */
function prepareRows(engine: SqliteConnection, table: string, columns: readonly string[]): SqliteStatement {
  try {
    return prepare(engine, `SELECT ${columns.join()} FROM ${quote(table)}`)
  } catch (error) {
    if (!(error instanceof SqliteError)) throw error
    throw new SqliteError(`table ${table}: ${error.message}`, error.code, error.offset)
  }
}

function hasRowId(engine: SqliteConnection, table: string): boolean {
  const [row] = readTexts(engine, `SELECT wr FROM pragma_table_list(${literal(table)}) WHERE schema = 'main'`)
  return row?.[0] === '0'
}

/** Whether the table has an INTEGER PRIMARY KEY that is not its row id, as with `INTEGER PRIMARY KEY DESC`. */
function hasSeparateIntegerKey(engine: SqliteConnection, table: string): boolean {
  const keys = readTexts(engine, `SELECT type FROM pragma_table_info(${literal(table)}) WHERE pk > 0`)
  if (keys.length !== 1 || keys[0]?.[0]?.toUpperCase() !== 'INTEGER') return false
  const sql = `SELECT 1 FROM pragma_index_list(${literal(table)}) WHERE origin = 'pk'`
  return readTexts(engine, sql).length > 0
}

/** Returns a name of the row id that no column has, not even a generated one. */
function findFreeRowId(engine: SqliteConnection, table: string): string | null {
  const columns = readTexts(engine, `SELECT name FROM pragma_table_xinfo(${literal(table)})`).flat()
  const names = new Set(columns.map((name) => name.toLowerCase()))
  return ROW_IDS.find((name) => !names.has(name)) ?? null
}

/** Appends a semicolon to a statement, outside any comment at its end. */
function withSemicolon(sql: string): string {
  const tail = sql.slice(scanSql(sql).at(-1)?.end ?? 0)
  return tail.includes('--') ? `${sql}\n;\n` : `${sql};\n`
}

/** Whether a statement, as SQLite stores it, creates a virtual table. */
function isVirtual(sql: string): boolean {
  return sql.startsWith('CREATE VIRTUAL TABLE ')
}

function prepare(engine: SqliteConnection, sql: string): SqliteStatement {
  return engine.prepare(sql, READ_GRANT) as SqliteStatement
}

/** Returns the rows of a result, with all values as text. It must be small, because it is read at once. */
function readTexts(engine: SqliteConnection, sql: string): string[][] {
  const statement = prepare(engine, sql)
  try {
    const rows = statement.readRows({
      limitBytes: MAX_STORED_BYTES,
      asLines: false,
      maxValueBytes: MAX_STORED_BYTES,
    })
    const values = JSON.parse(`[${toText(rows.text)}]`) as { readonly value?: string }[][]
    return values.map((row) => row.map(({ value }) => value ?? ''))
  } finally {
    statement.finalize()
  }
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
