import { checkBlobLiterals } from '../sql/blob-literals.ts'
import { quotedBy } from '../sql/verb.ts'

// built by pure functions, so that bundles without dump() and restore() omit them
const TEXT = /* @__PURE__ */ quotedBy("'")
const NAME = /* @__PURE__ */ quotedBy('"')
const ANY_NAME = /* @__PURE__ */ (() => `(?:${TEXT}|${NAME}|\\[[^\\]]*\\]|[^\\s"'([.]+)`)()
const INSERT = /* @__PURE__ */ (() =>
  new RegExp(
    `^(?:insert(?:\\s+or\\s+\\w+)?|replace)\\s+into\\s+${ANY_NAME}(?:\\.${ANY_NAME})?\\s*(?:\\((?:${NAME}|[^"()])*\\))?\\s*values\\s*(?=\\()`,
    'i',
  ))()
/**
 * Matches a text that is encoded by a function, a text or a blob, a quoted name, a comment, an infinite number, or a number that may
 * be a REAL.
 */
const LITERAL = /* @__PURE__ */ (() =>
  new RegExp(
    `unistr\\s*\\(\\s*(${TEXT})\\s*\\)|${TEXT}|${NAME}|--[^\\n]*|/\\*[^*]*(?:\\*(?!/)[^*]*)*|\\binf\\b|(?<![\\w.$])(?:\\d+\\.\\d*|\\.\\d+|-?\\d{19,}(?![\\w.])|\\d+(?=e))(?:e[-+]?\\d+)?`,
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
  if (/^(?:"|--|\/\*)/.test(literal)) return literal
  if (/^inf$/i.test(literal)) return '9e999'
  // an integer of 64 bits stays one
  if (/^-?\d+$/.test(literal) && BigInt.asIntN(64, BigInt(literal)) === BigInt(literal)) return literal
  const value = Number(literal)
  if (!Number.isFinite(value)) return literal
  // with more digits, libsql-server reads the largest number as infinite
  const text = value.toPrecision(Math.abs(value) === Number.MAX_VALUE ? 17 : 20)
  return /[.e]/.test(text) ? text : `${text}.0`
}

/** Decodes the escapes of SQLite's `unistr()`: `\XXXX`, `\+XXXXXX`, `\uXXXX`, `\UXXXXXXXX` and `\\`. */
const decodeUnistr = (text: string): string =>
  text.replace(ESCAPE, (_, backslash, short, six, eight) =>
    backslash === undefined ? String.fromCodePoint(Number.parseInt(short ?? six ?? eight, 16)) : '\\',
  )
const ESCAPE = /\\(?:(\\)|u?([\da-fA-F]{4})|\+([\da-fA-F]{6})|U([\da-fA-F]{8}))/g

/** Returns an expression for a string, which may contain U+0000. */
export function toLiteral(text: string): string {
  if (!text.includes('\0')) return `'${text.replaceAll("'", "''")}'`
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, '0'))
  return `CAST(X'${bytes.join('')}' AS TEXT)`
}

/** Returns the table that a statement of a dump creates or fills; null for other statements. */
export function tableOf(sql: string): string | null {
  const [, table] = TABLE.exec(sql) ?? []
  return table === undefined ? null : unquote(table)
}
const TABLE = /* @__PURE__ */ (() =>
  new RegExp(`^(?:insert into|create table if not exists) (${ANY_NAME})`, 'i'))()

export function unquote(quoted: string): string {
  const mark = quoted[0] as string
  return /['"]/.test(mark) ? quoted.slice(1, -1).replaceAll(mark + mark, mark) : quoted
}
