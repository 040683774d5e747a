/** How libsql-server begins the statement for a virtual table. Others omit the space, and double the quotes of what follows. */
export const LIBSQL_VIRTUAL_TABLE =
  "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table',"

// the name is there twice, so that it is recognized whether or not its quotes are doubled
const VIRTUAL_TABLE =
  /^insert into sqlite_(?:schema|master)\s*\(type,\s*name,\s*tbl_name,\s*rootpage,\s*sql\)\s*values\s*\('table',\s*'(.{1,1000}?)',\s*'\1',\s*0,\s*'(create virtual table[^]*)'\)$/is

/**
 * Returns the definition of a virtual table from the statement of a dump that inserts it into the schema; null for any other
 * statement. libsql-server does not double the quotes in it.
 */
export function readVirtualTable(sql: string): { readonly name: string; readonly definition: string } | null {
  const [, name, definition] = VIRTUAL_TABLE.exec(sql) ?? []
  if (name === undefined || definition === undefined) return null
  const isLibsql = sql.startsWith(LIBSQL_VIRTUAL_TABLE)
  const read = (text: string): string =>
    isLibsql && !hasDoubledQuotes(text) ? text : text.replaceAll("''", "'")
  return { name: read(name), definition: read(definition) }
}

/**
 * Whether quotes are doubled although the statement begins as libsql-server's: they are in `content=''doc''` and `content=''''`, not
 * in `content='doc'` and `content=''`.
 */
const hasDoubledQuotes = (text: string): boolean =>
  /\w''|''\w|=\s*''''/.test(text) && !text.replaceAll("''", '').includes("'")
