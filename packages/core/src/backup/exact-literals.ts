import { checkBlobLiterals } from '../sql/blob-literals.ts'
import { quotedBy } from '../sql/verb.ts'

const TEXT = /* @__PURE__ */ quotedBy("'")
const NAME = /* @__PURE__ */ quotedBy('"')
// built by pure functions, so that bundles without dump() and restore() omit them
const INSERT = /* @__PURE__ */ (() =>
  new RegExp(
    `^insert into (?:${TEXT}|${NAME}|\\[[^\\]]*\\]|[^\\s"'([]+)\\s*(?:\\((?:${NAME}|[^"()])*\\))?\\s*values\\s*(?=\\()`,
    'i',
  ))()
/** Matches a text that is encoded by a function, a text or a blob, an infinite number, or a number that may be a REAL. */
const LITERAL = /* @__PURE__ */ (() =>
  new RegExp(
    `unistr\\s*\\(\\s*(${TEXT})\\s*\\)|${TEXT}|\\binf\\b|(?<![\\w.$])(?:\\d+\\.\\d*|\\.\\d+|-?\\d{19,}(?![\\w.])|\\d+(?=e))(?:e[-+]?\\d+)?`,
    'gi',
  ))()
/** Whether an INSERT may have a literal that must be rewritten. */
const MAY_NEED_REWRITING = /\.\d|\d\.|\de|\d{19}|\binf\b|unistr|\0/i

/**
 * Rewrites the values of an INSERT statement of a dump, so that every server stores the values that were dumped:
 * - REALs get 20 significant digits, as in sqlite3's own dumps, because libsql-server rounds the shortest text of some;
 * - `inf`, and text with U+0000, which libsql-server writes and cannot parse;
 * - `unistr('…\u000a…')`, which sqlite3 writes since 3.50 and older engines do not have.
 *
 * Other statements are returned unchanged.
 * @throws RangeError for a blob that is too large for a server
 */
export function withExactLiterals(sql: string): string {
  checkBlobLiterals(sql)
  const [head] = (MAY_NEED_REWRITING.test(sql) && INSERT.exec(sql)) || []
  if (head === undefined) return sql
  return head + sql.slice(head.length).replace(LITERAL, rewrite)
}

function rewrite(literal: string, encoded: string | undefined): string {
  if (encoded !== undefined) return toLiteral(decodeUnistr(unquote(encoded)))
  if (literal.startsWith("'")) return literal.includes('\0') ? toLiteral(unquote(literal)) : literal
  if (/^inf$/i.test(literal)) return '9e999'
  // an integer of 64 bits stays one
  if (/^-?\d+$/.test(literal) && BigInt.asIntN(64, BigInt(literal)) === BigInt(literal)) return literal
  const value = Number(literal)
  if (!Number.isFinite(value)) return literal
  const text = value.toPrecision(20)
  return /[.e]/.test(text) ? text : `${text}.0`
}

/** Decodes the escapes of SQLite's `unistr()`: `\XXXX`, `\+XXXXXX`, `\uXXXX`, `\UXXXXXXXX` and `\\`. */
const decodeUnistr = (text: string): string =>
  text.replace(ESCAPE, (_, backslash, short, six, eight) =>
    backslash === undefined ? String.fromCodePoint(Number.parseInt(short ?? six ?? eight, 16)) : '\\',
  )
const ESCAPE = /\\(?:(\\)|u?([\da-fA-F]{4})|\+([\da-fA-F]{6})|U([\da-fA-F]{8}))/g

/** Returns an expression for a text, which may contain U+0000. */
export function toLiteral(text: string): string {
  if (!text.includes('\0')) return `'${text.replaceAll("'", "''")}'`
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, '0'))
  return `CAST(X'${bytes.join('')}' AS TEXT)`
}

/** Returns the table that a statement of a dump creates or fills; null for other statements. */
export function tableOf(sql: string): string | null {
  const [, table] =
    /^(?:insert into|create table if not exists) ("[^"]*"|'[^']*'|[^\s"'([]+)/i.exec(sql) ?? []
  return table === undefined ? null : unquote(table)
}

/** Unquotes a string or an identifier. */
export function unquote(quoted: string): string {
  const mark = quoted[0] as string
  return /['"]/.test(mark) ? quoted.slice(1, -1).replaceAll(mark + mark, mark) : quoted
}

/** How libsql-server begins the statement for a virtual table. Others omit the space, and double the quotes of what follows. */
export const LIBSQL_VIRTUAL_TABLE =
  "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table',"

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
 * Whether quotes are doubled although the statement begins as libsql-server's; not for `content=''`, nor for a quoted quote after a
 * word.
 */
const hasDoubledQuotes = (text: string): boolean =>
  /\w''|''\w|=\s*''''/.test(text) && !text.replaceAll("''", '').includes("'")

// the name is there twice, so that it is recognized whether or not its quotes are doubled
const VIRTUAL_TABLE =
  /^insert into sqlite_(?:schema|master)\s*\(type,\s*name,\s*tbl_name,\s*rootpage,\s*sql\)\s*values\s*\('table',\s*'(.{1,1000}?)',\s*'\1',\s*0,\s*'(create virtual table[^]*)'\)$/is
