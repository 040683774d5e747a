import { BLANK, quotedBy } from '../../sql/verb.ts'

export interface QuerySummary {
  /** Operations and their tables, in order, such as `INSERT invoice SELECT cart`; at most 255 characters. */
  readonly text: string
  /** The table that it reads or changes, if it is known to be only one. */
  readonly table: string | null
}

const NAME = [
  String.raw`[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*`,
  quotedBy('"'),
  quotedBy('`'),
  String.raw`\[[^\]]*\]`,
].join('|')
/** Matches one token. Whitespace and comments have no group. An unterminated quote includes the rest, which may be a value. */
const TOKEN = new RegExp(
  [
    BLANK,
    String.raw`(?<name>(?:${NAME})(?:\s*\.\s*(?:${NAME}))*)`,
    String.raw`(?<mark>${quotedBy("'")}|["'${'`'}[][^]*|[^\s\w])`,
  ].join('|'),
  'g',
)
/** Maximum length of SQL that is summarized; the rest of a longer statement is usually values. */
const MAX_SQL_LENGTH = 5_000
const MAX_SUMMARY_LENGTH = 255

const DATA_KEYWORD = /^(?:SELECT|INSERT|REPLACE|UPDATE|DELETE)$/
const SCHEMA_KEYWORD = /^(?:CREATE|ALTER|DROP)$/
const OBJECT_KEYWORD = /^(?:TABLE|INDEX|VIEW|TRIGGER)$/
/** After these words, UPDATE and DELETE are part of a clause: `on conflict do update`, `on delete cascade`, `after update`. */
const BEFORE_CLAUSE = /^(?:DO|ON|OF|OR|AFTER|BEFORE)$/
const BEFORE_TABLE = /^(?:FROM|JOIN|INTO)$/
/** Words that may stand between a keyword and the name. */
const SKIPPED_KEYWORD = /^(?:IF|NOT|EXISTS|OR|ABORT|FAIL|IGNORE|REPLACE|ROLLBACK)$/
/** After these words, a comma is not followed by a table. SELECT ends a list too. */
const LIST_END = /^(?:WHERE|ON|GROUP|WINDOW|ORDER|LIMIT|VALUES|RETURNING|[()])$/

/**
 * Summarizes a statement by its words, without parsing it. Keywords are in upper case, names as written. Text in single quotes is
 * never treated as a name, although SQLite sometimes treats it as one, because it may be a value that must not be recorded.
 */
export function summarize(sql: string): QuerySummary {
  const words: string[] = []
  const tables = new Set<string>()
  let firstWord = ''
  let previousWord = ''
  let expectsName = false
  let isList = false
  for (const { groups } of sql.slice(0, MAX_SQL_LENGTH).matchAll(TOKEN)) {
    const { name, mark = name } = groups ?? {}
    if (mark === undefined) continue
    const word = mark.toUpperCase()
    const isFirst = firstWord === '' && name !== undefined
    if (isFirst) firstWord = word
    if (expectsName && SKIPPED_KEYWORD.test(word)) continue
    if (expectsName && name !== undefined) {
      words.push(name)
      tables.add(name)
      expectsName = false
    } else if (
      DATA_KEYWORD.test(word) &&
      !BEFORE_CLAUSE.test(previousWord) &&
      !(word === 'REPLACE' && words.length > 0)
    ) {
      words.push(word)
      isList = false
      expectsName = word === 'UPDATE'
    } else if (SCHEMA_KEYWORD.test(firstWord) && OBJECT_KEYWORD.test(word) && words.length === 0) {
      words.push(`${firstWord} ${word}`)
      expectsName = true
    } else {
      if (isFirst && !SCHEMA_KEYWORD.test(word) && word !== 'WITH') words.push(word)
      expectsName =
        (BEFORE_TABLE.test(word) && previousWord !== 'DISTINCT') ||
        (isFirst && word === 'PRAGMA') ||
        (isList && word === ',')
      isList = expectsName || (isList && !LIST_END.test(word))
    }
    previousWord = word
  }
  let text = words[0] ?? 'SQL'
  for (const word of words.slice(1)) {
    if (text.length + 1 + word.length > MAX_SUMMARY_LENGTH) break
    text += ` ${word}`
  }
  const [table = null] = tables
  const isComplete = sql.length <= MAX_SQL_LENGTH
  return { text, table: DATA_KEYWORD.test(firstWord) && tables.size === 1 && isComplete ? table : null }
}
