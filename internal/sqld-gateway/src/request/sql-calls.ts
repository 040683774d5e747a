import { ALLOWED_FUNCTIONS, ALLOWED_TABLE_FUNCTIONS } from '@batonsql/server-common/sql'
import { isWord, type SqlToken } from './sql-tokens.ts'

/**
 * SQLite's keywords. Before a parenthesis these are not functions, as in `values (1)`, or are safe ones, as in `replace('a', 'b', 'c')`.
 * `regexp` is left out: it calls a function that the server may load.
 */
const KEYWORDS: ReadonlySet<string> = new Set(
  `abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade case
  cast check collate column commit conflict constraint create cross current current_date current_time current_timestamp
  database default deferrable deferred delete desc detach distinct do drop each else end escape except exclude exclusive
  exists explain fail filter first following for foreign from full generated glob group groups having if ignore immediate
  in index indexed initially inner insert instead intersect into is isnull join key last left like limit match
  materialized natural no not nothing notnull null nulls of offset on or order others outer over partition plan pragma
  preceding primary query raise range recursive references reindex release rename replace restrict returning right
  rollback row rows savepoint select set table temp temporary then ties to transaction trigger unbounded union unique
  update using vacuum values view virtual when where window with within without`.split(/\s+/),
)
/**
 * Functions that libsql-server does not have, so that a call of them fails. The triggers of every GeoPackage call them, and fire only
 * when geometries are changed.
 */
const GEOPACKAGE_FUNCTIONS = /^(?:st_(?:isempty|minx|maxx|miny|maxy|geometrytype|srid)|gpkg_isassignable)$/
/** Words that are followed by the name of a table or a type, never by a function. */
const BEFORE_NAMES = /^(?:into|references|table|view|exists|with|recursive|pragma|as|from|join|in)$/
/** Reserved words that never end an operand, and others that never begin one; every other word may be a column. */
const NO_OPERAND_BEFORE =
  /^(?:select|where|and|or|when|then|else|case|on|having|limit|distinct|all|in|is|between|values|set|returning|default|check|as|from|join|using|into|table|index|add|to|union|except|intersect|create|drop|alter|update|delete|insert|exists|references|constraint|collate)$/i
const NO_OPERAND_AFTER =
  /^(?:from|as|and|or|where|group|order|having|limit|union|except|intersect|is|isnull|notnull|in|between|then|else|when|on|using|join|collate|escape|set|values|returning|primary|unique|check|default|references|constraint|to)$/i
const PRAGMA_TABLE = /^pragma_\w+$/

/** `INSERT INTO name (` is not a call. */
const INSERT_HEAD = /^\s*insert\s+(?:or\s+\w+\s+)?into\s+(?:"[^"]*"|`[^`]*`|\w+)\s*\(/i
const WORD_END = /[\w$\u0080-\uffff]$/
const QUOTE = /["'`\]]/

/**
 * Whether SQL text is certain to call only known functions, checked without tokenizing; true for most SQL. Does not find calls
 * without parentheses, such as `a regexp b`: `findRejection` passes text with such words to `findUnknownCall`.
 */
export function callsOnlyKnownFunctions(sql: string): boolean {
  let opening = sql.indexOf('(', INSERT_HEAD.exec(sql)?.[0].length ?? 0)
  if (opening === -1) return true
  // with comments, the text before a parenthesis may not be what it seems
  if (sql.includes('--') || sql.includes('/*') || sql.includes('\0')) return false
  for (; opening !== -1; opening = sql.indexOf('(', opening + 1)) {
    const end = findWhitespaceStart(sql, opening)
    if (QUOTE.test(sql[end - 1] ?? '')) return false
    let start = end
    while (start > 0 && WORD_END.test(sql[start - 1] as string)) start -= 1
    const text = sql.slice(start, end)
    if (text !== '' && !isKnown({ kind: 'word', text })) return false
  }
  return true
}

/** Returns the start of the white space that ends at an offset. */
function findWhitespaceStart(sql: string, end: number): number {
  let start = end
  while (start > 0 && /\s/.test(sql[start - 1] as string)) start -= 1
  return start
}

/** Returns the first function call of a statement that is not known to be safe; null if there is none. */
export function findUnknownCall(statement: readonly SqlToken[]): string | null {
  if (isVirtualTable(statement)) return findCompressFunction(statement)
  const form = getForm(statement)
  const lists = new TableLists()
  const closings = findClosings(statement)
  let depth = 0
  for (const [index, token] of statement.entries()) {
    if (isText(token, ')')) depth -= 1
    if (isText(token, '(')) depth += 1
    lists.read(token)
    const site = { statement, index, depth, form, isInTableList: lists.isOpen, closings }
    if (isWord(token, 'regexp') && isOperator(site)) return token.text
    const isCall = isText(statement[index + 1], '(') && (token.kind === 'word' || token.kind === 'name')
    if (!isCall || isKnown(token) || isDeclared(site)) continue
    if (isVectorIndex(token) && form.indexedTable >= 0 && !isText(statement[index + 2], ')')) continue
    return token.text
  }
  return null
}

function isKnown({ kind, text }: SqlToken): boolean {
  const name = text.toLowerCase()
  if (kind === 'word' && KEYWORDS.has(name)) return true
  if (isVectorIndex({ kind, text })) return false
  return (
    ALLOWED_FUNCTIONS.has(name) ||
    ALLOWED_TABLE_FUNCTIONS.has(name) ||
    PRAGMA_TABLE.test(name) ||
    GEOPACKAGE_FUNCTIONS.test(name)
  )
}

/** Except in the definition of an index, this function dereferences its argument as a pointer. */
const isVectorIndex = ({ text }: SqlToken): boolean => text.toLowerCase() === 'libsql_vector_idx'

interface StatementForm {
  /** Depth of parentheses at which columns are declared with their types; null in other statements. */
  readonly columnsDepth: number | null
  /** Position of the name of the indexed table. */
  readonly indexedTable: number
  readonly isAttach: boolean
}

function getForm(statement: readonly SqlToken[]): StatementForm {
  const isAttach = statement.some((token) => isWord(token, 'attach'))
  const [first, second] = statement
  const opening = statement.findIndex((token) => isText(token, '('))
  if (isWord(first, 'alter')) return { columnsDepth: 0, indexedTable: -1, isAttach }
  if (!isWord(first, 'create')) return { columnsDepth: null, indexedTable: -1, isAttach }
  if (isWord(/^temp(?:orary)?$/i.test(second?.text ?? '') ? statement[2] : second, 'table')) {
    const hasColumns = !statement.slice(0, Math.max(0, opening)).some((token) => isWord(token, 'as'))
    return { columnsDepth: hasColumns ? 1 : null, indexedTable: -1, isAttach }
  }
  const isIndex = isWord(second, 'index') || (isWord(second, 'unique') && isWord(statement[2], 'index'))
  return { columnsDepth: null, indexedTable: isIndex ? opening - 1 : -1, isAttach }
}

interface CallSite {
  readonly statement: readonly SqlToken[]
  readonly index: number
  readonly depth: number
  readonly form: StatementForm
  /** Whether a list of tables is open at this depth: a comma is then followed by a table, possibly with arguments. */
  readonly isInTableList: boolean
  readonly closings: ReadonlyMap<number, number>
}

/**
 * Whether the text before a parenthesis is not a function but the name of a table, as in `insert into t(a)`, a type, as in
 * `create table t (a varchar(10))`, or an object that the statement declares, as in `with t(a) as (…)`.
 */
function isDeclared(call: CallSite): boolean {
  const { statement, index, depth, form } = call
  if (depth === form.columnsDepth || index === form.indexedTable) return true
  const before = statement[index - 1]
  // only tables are qualified by a database
  if (isText(before, '.')) return true
  // `a is distinct from b` has no table
  if (isWord(before, 'from') && isWord(statement[index - 2], 'distinct')) return false
  if (call.isInTableList && isBeforeTable(before)) return true
  if (before?.kind === 'name' || before?.kind === 'string') return true
  if (before?.kind === 'word') {
    const word = before.text.toLowerCase()
    if (!KEYWORDS.has(word)) return true
    if (BEFORE_NAMES.test(word)) return !(word === 'as' && form.isAttach)
  }
  return !form.isAttach && isTableExpression(statement, call.closings.get(index + 1))
}

/** Words that begin or end a list of tables; the expression after ON has no comma of its own. */
const CLAUSE = /^(?:select|from|where|set|values|having|by|limit|returning|when|then)$/i

/** Tracks whether the tokens read so far are inside a list of tables, for each open parenthesis. */
class TableLists {
  readonly #open = [false]
  #before: SqlToken | undefined

  read(token: SqlToken): void {
    const before = this.#before
    if (isWord(token, 'from') && isWord(before, 'distinct')) return
    this.#before = token
    if (isText(token, '(')) this.#open.push(this.isOpen && isBeforeTable(before))
    // ignores the text before an unmatched parenthesis
    if (isText(token, ')') && this.#open.length > 1) this.#open.pop()
    else if (isText(token, ')')) this.#open[0] = false
    if (token.kind === 'word' && CLAUSE.test(token.text) && !isWord(before, 'indexed'))
      this.#open[this.#open.length - 1] = isWord(token, 'from')
  }

  get isOpen(): boolean {
    return this.#open.at(-1) === true
  }
}

/** Whether a token, in a list of tables, is the name of a table, possibly qualified by a database. */
function isTableName(statement: readonly SqlToken[], index: number): boolean {
  const start = isText(statement[index - 1], '.') ? index - 2 : index
  const isDistinctFrom = isWord(statement[start - 1], 'from') && isWord(statement[start - 2], 'distinct')
  return isBeforeTable(statement[start - 1]) && !isDistinctFrom && !isText(statement[index], ')')
}

function isBeforeTable(token: SqlToken | undefined): boolean {
  return isWord(token, 'from') || isWord(token, 'join') || isText(token, ',') || isText(token, '(')
}

/** Maps each opening parenthesis to its closing one. */
function findClosings(statement: readonly SqlToken[]): ReadonlyMap<number, number> {
  const closings = new Map<number, number>()
  const open: number[] = []
  for (const [index, token] of statement.entries()) {
    if (isText(token, '(')) open.push(index)
    const opening = isText(token, ')') ? open.pop() : undefined
    if (opening !== undefined) closings.set(opening, index)
  }
  return closings
}

/** Whether a statement has the form `name (columns) AS (SELECT …)`. */
function isTableExpression(statement: readonly SqlToken[], closing: number | undefined): boolean {
  if (closing === undefined || !isWord(statement[closing + 1], 'as')) return false
  const next = isWord(statement[closing + 2], 'not') ? closing + 3 : closing + 2
  return isText(statement[isWord(statement[next], 'materialized') ? next + 1 : next], '(')
}

/** Whether a word is an operator, as in `a regexp 'b'`: it stands between two operands. */
function isOperator({ statement, index, depth, form, isInTableList, closings }: CallSite): boolean {
  const first = statement[index - 2]
  const before = statement[index - 1]
  // the name of a created object, a type, or a common table expression
  if ((isWord(statement[0], 'create') && index < 4) || depth === form.columnsDepth) return false
  if (!form.isAttach && isTableExpression(statement, closings.get(index + 1))) return false
  // the alias of a table, as in `from t regexp left join u`
  if (isInTableList && isTableName(statement, index - 1)) return false
  // a column of this name in ORDER BY
  if (isWord(before, 'by') && first?.kind === 'word' && /^(?:order|group|partition)$/i.test(first.text))
    return false
  return endsOperand(before) && beginsOperand(statement[index + 1])
}

function endsOperand(token: SqlToken | undefined): boolean {
  if (token === undefined) return false
  if (token.kind === 'word') return !NO_OPERAND_BEFORE.test(token.text)
  return token.kind !== 'other' || /^(?:[)0-9?:@$#xX]|\.[0-9])/.test(token.text)
}

function beginsOperand(token: SqlToken | undefined): boolean {
  if (token === undefined) return false
  if (token.kind === 'word') return !NO_OPERAND_AFTER.test(token.text)
  return token.kind !== 'other' || /^(?:[(+\-~0-9?:@$#xX]|\.[0-9])/.test(token.text)
}

function isVirtualTable([first, second]: readonly SqlToken[]): boolean {
  return isWord(first, 'create') && isWord(second, 'virtual')
}

/** Finds a compress function: full-text search calls functions named in the arguments of its table. */
function findCompressFunction(statement: readonly SqlToken[]): string | null {
  for (const [index, { kind, text }] of statement.entries()) {
    const isOption = kind !== 'other' && /^(?:un)?compress$/i.test(text) && isText(statement[index + 1], '=')
    const nameToken = statement[index + 2]
    if (isOption && nameToken !== undefined && !ALLOWED_FUNCTIONS.has(nameToken.text.toLowerCase()))
      return nameToken.text
  }
  return null
}

function isText(token: SqlToken | undefined, text: string): boolean {
  return token?.kind === 'other' && token.text === text
}
