/** What a statement does, and to what. */
export interface QuerySummary {
  /** Operations and what they act on, in their order, such as `INSERT invoice SELECT cart`; at most 255 characters. */
  readonly text: string
  /** The table that it reads or changes, if it is known to be only one. */
  readonly table: string | null
}

const QUOTED = ["'", '"', '`'].map((mark) => `${mark}[^${mark}]*(?:${mark}${mark}[^${mark}]*)*${mark}`)
const NAME = `(?:${[...QUOTED, String.raw`\[[^\]]*\]`, String.raw`[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*`].join('|')})`
/** Comments have no group. */
const TOKEN = new RegExp(
  String.raw`--[^\n]*|/\*[^]*?\*/|(?<name>${NAME}(?:\s*\.\s*${NAME})*)|(?<mark>[^\s\w])`,
  'g',
)
/** Texts are read up to here: long ones are long because of their values. */
const LENGTH = 5_000
const MAX_SUMMARY = 255

const DATA = /^(?:SELECT|INSERT|REPLACE|UPDATE|DELETE)$/
const SCHEMA = /^(?:CREATE|ALTER|DROP)$/
const OBJECT = /^(?:TABLE|INDEX|VIEW|TRIGGER)$/
/** Before UPDATE or DELETE that is no operation: `on conflict do update`, `on delete cascade`, `after update`. */
const NO_OPERATION = /^(?:DO|ON|OF|OR|AFTER|BEFORE)$/
const BEFORE_TABLE = /^(?:FROM|JOIN|INTO)$/
/** Between such a word and the name. */
const PASSED = /^(?:IF|NOT|EXISTS|OR|ABORT|FAIL|IGNORE|REPLACE|ROLLBACK)$/
const ENDS_LIST = /^(?:WHERE|ON|USING|SET|GROUP|ORDER|LIMIT|VALUES|UNION|EXCEPT|INTERSECT|[()])$/

/** Summarizes a statement by its words, without parsing it. Keywords are in upper case, names as written. */
export function summarize(sql: string): QuerySummary {
  const words: string[] = []
  const tables = new Set<string>()
  let first = ''
  let previous = ''
  let awaitsName = false
  let isList = false
  for (const { groups } of sql.slice(0, LENGTH).matchAll(TOKEN)) {
    const { name, mark = name } = groups ?? {}
    if (mark === undefined) continue
    const word = mark.toUpperCase()
    const isFirst = first === '' && name !== undefined
    if (isFirst) first = word
    if (awaitsName && PASSED.test(word)) continue
    if (awaitsName && name !== undefined && word !== 'SELECT' && word !== 'VALUES') {
      words.push(name)
      tables.add(name)
      awaitsName = false
    } else if (DATA.test(word) && !NO_OPERATION.test(previous) && !(word === 'REPLACE' && words.length > 0)) {
      words.push(word)
      isList = false
      awaitsName = word === 'UPDATE'
    } else if (SCHEMA.test(first) && OBJECT.test(word) && words.length === 0) {
      words.push(`${first} ${word}`)
      awaitsName = true
    } else {
      if (isFirst && !SCHEMA.test(word) && word !== 'WITH') words.push(word)
      awaitsName =
        (BEFORE_TABLE.test(word) && previous !== 'DISTINCT') ||
        (isFirst && word === 'PRAGMA') ||
        (isList && word === ',')
      isList = awaitsName || (isList && !ENDS_LIST.test(word))
    }
    previous = word
  }
  let text = words[0] ?? 'SQL'
  for (const word of words.slice(1)) {
    if (text.length + 1 + word.length > MAX_SUMMARY) break
    text += ` ${word}`
  }
  const [table = null] = tables
  return { text, table: DATA.test(first) && tables.size === 1 ? table : null }
}
