import { getKeyword, scanSql, type Token, unquoteIdentifier } from './scanner.ts'

const FUNCTION_NAME = 'vector_top_k'
const NAME_PATTERN = new RegExp(FUNCTION_NAME, 'i')
const ARGUMENT_COUNT = 3
/**
 * Maximum number of rows. A search for 0 rows, or for 268,435,455 or more, crashes libsql-server and corrupts the memory of the
 * embedded engine. For NULL, both return an error.
 */
const MAX_ROWS = 100_000_000
const ROW_COUNT_LITERAL = /^[1-9][0-9]{0,7}$/

/** A statement that fails in both engines. */
const REJECTED_SQL = `SELECT "${FUNCTION_NAME} (refused: it needs three arguments: index, vector and number of rows)"()`

/**
 * Limits the number of rows that each `vector_top_k(index, vector, rows)` requests, unless it is a valid literal. The limit is an
 * expression, so that it also applies to parameters, columns and stored SQL. SQL that uses the search in another way is replaced
 * by SQL that fails, because a WHERE condition could then set the number.
 */
export function limitVectorSearches(sql: string): string {
  if (!NAME_PATTERN.test(sql)) return sql
  const tokens = scanSql(sql)
  // virtual table modules build SQL from their arguments
  if (tokens.some((token) => getKeyword(sql, token) === 'VIRTUAL')) return REJECTED_SQL
  // SQLite reads `$a(…)` as one parameter, so its parentheses must not be matched
  if (tokens.some((token) => isParameterWithBracket(sql, token))) return REJECTED_SQL
  const limits = new Map<number, string>()
  let unlimitedCount = tokens.filter(
    (token, index) => isSearch(sql, token) && getSymbol(sql, tokens[index + 1]) !== '.',
  ).length
  for (const { start, end } of findRowArguments(sql, tokens)) {
    unlimitedCount -= 1
    if (ROW_COUNT_LITERAL.test(sql.slice(start, end))) continue
    limits.set(start, `(SELECT iif(k BETWEEN 1 AND ${MAX_ROWS}, k, NULL) FROM (SELECT (`)
    limits.set(end, ') AS k))')
  }
  return unlimitedCount === 0 ? insertTexts(sql, limits) : REJECTED_SQL
}

interface OpenBracket {
  readonly isSearch: boolean
  /** Token positions of the commas between its arguments. */
  readonly commas: number[]
}

/** Returns the range of the third argument of each search with three arguments. */
function findRowArguments(sql: string, tokens: readonly Token[]): { start: number; end: number }[] {
  const ranges: { start: number; end: number }[] = []
  const openBrackets: OpenBracket[] = []
  for (const [index, token] of tokens.entries()) {
    const symbol = getSymbol(sql, token)
    if (symbol === '(') openBrackets.push({ isSearch: isSearch(sql, tokens[index - 1]), commas: [] })
    else if (symbol === ',') openBrackets.at(-1)?.commas.push(index)
    else if (symbol === ')') {
      const { isSearch: isSearchCall = false, commas = [] } = openBrackets.pop() ?? {}
      const first = tokens[(commas.at(-1) ?? index) + 1]
      const isComplete = commas.length === ARGUMENT_COUNT - 1 && first !== token
      if (isSearchCall && isComplete)
        ranges.push({ start: first?.start ?? 0, end: tokens[index - 1]?.end ?? 0 })
    }
  }
  return ranges
}

/** Whether a token names the search; a string can also name a table. */
function isSearch(sql: string, token: Token | undefined): boolean {
  if (token === undefined) return false
  const text =
    token.kind === 'string' ? sql.slice(token.start + 1, token.end - 1) : unquoteIdentifier(sql, token)
  return text?.toLowerCase() === FUNCTION_NAME
}

function isParameterWithBracket(sql: string, { kind, start, end }: Token): boolean {
  return kind === 'parameter' && sql[start] !== '?' && sql[end] === '('
}

function getSymbol(sql: string, token: Token | undefined): string | undefined {
  return token?.kind === 'symbol' ? sql[token.start] : undefined
}

function insertTexts(sql: string, texts: ReadonlyMap<number, string>): string {
  let copiedEnd = 0
  const pieces = [...texts]
    .toSorted(([a], [b]) => a - b)
    .map(([offset, text]) => {
      const piece = sql.slice(copiedEnd, offset) + text
      copiedEnd = offset
      return piece
    })
  return pieces.join('') + sql.slice(copiedEnd)
}
