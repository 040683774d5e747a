/** White space, comments and empty statements; a character that SQLite reads differently makes it reject the statement. */
const BLANK = '(?:[\\s;\\ufeff]|--[^\\n]*(?:\\n|$)|/\\*(?:[^*]|\\*(?!/))*\\*/)*'
const READ = 'select|values|with'
const CHANGE = 'insert|replace|update|delete'
const EXPLAIN = `explain${BLANK}(?:query${BLANK}plan${BLANK})?`
const READING_STATEMENT = new RegExp(
  `^${BLANK}(?:$|(?:${READ}|${EXPLAIN}(?:${READ}|${CHANGE}))(?![\\w$\\x80-\\uffff]))`,
  'i',
)

/** Pragmas that change nothing, with an argument or without. */
const NAMING_PRAGMA =
  'table_x?info|table_list|index_list|index_x?info|foreign_key_list|foreign_key_check|integrity_check|quick_check'
const READING_PRAGMA = new RegExp(
  `^${BLANK}pragma${BLANK}(?:\\w+${BLANK}\\.${BLANK})?(?:(?:${NAMING_PRAGMA})${BLANK}\\(|\\w+${BLANK}$)`,
  'i',
)

/**
 * Whether a server may prepare the first statement of SQL text, if it has one, without effect, judging by the text: preparing some
 * statements executes them, such as PRAGMAs with an argument, and with libSQL the DDL of vector indexes.
 */
export function isReadingStatement(sql: string): boolean {
  return READING_STATEMENT.test(sql) || READING_PRAGMA.test(sql)
}
