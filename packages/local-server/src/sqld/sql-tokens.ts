/** A token of SQL text. Names and strings are without their quotes. */
export interface SqlToken {
  /** `word`: bare identifier or keyword · `name`: in double quotes, backticks or brackets · `string`: in single quotes. */
  readonly kind: 'word' | 'name' | 'string' | 'other'
  readonly text: string
}

/** SQL text, cut up. */
export interface TokenizedSql {
  readonly tokens: readonly SqlToken[]
  /**
   * Whether two parsers may disagree about where a token ends: the server reads a text with a parser of its own and
   * hands parts of it to SQLite.
   */
  readonly isAmbiguous: boolean
}

const SPACE = /[\t\n\f\r ]+/y
/** The end of the text for one parser and white space or part of a word for another. */
const AMBIGUOUS = /[\0\v\ufeff]+/y
/** `$a(…)` is one token for SQLite. */
const CALLED_VARIABLE = /[$@:#][\w$:\u0080-\uffff]+\(/y
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y
const OTHER = /\.?[0-9][\w$\u0080-\uffff]*(?:\.[\w$\u0080-\uffff]*)?|\?[0-9]*|[$@:#][\w$:\u0080-\uffff]*|[^]/y
const CLOSING: Readonly<Record<string, string>> = { "'": "'", '"': '"', '`': '`', '[': ']' }

/** Cuts SQL into tokens by the rules of SQLite's tokenizer. */
export function tokenizeSql(sql: string): TokenizedSql {
  const tokens: SqlToken[] = []
  let isAmbiguous = false
  let at = 0
  const take = (pattern: RegExp): string | null => {
    pattern.lastIndex = at
    const found = pattern.exec(sql)?.[0] ?? null
    if (found !== null) at = pattern.lastIndex
    return found
  }
  while (at < sql.length) {
    if (take(SPACE) !== null) continue
    if (take(AMBIGUOUS) !== null || take(CALLED_VARIABLE) !== null) {
      isAmbiguous = true
      continue
    }
    const end = endOfEnclosed(sql, at)
    if (end === -1) {
      // nothing closes it: what comes now is looked at as one name
      return { tokens: [...tokens, { kind: 'name', text: sql.slice(at) }], isAmbiguous: true }
    }
    if (end !== null) {
      const token = enclosedToken(sql.slice(at, end))
      if (token !== null) tokens.push(token)
      at = end
      continue
    }
    const word = take(WORD)
    tokens.push(word === null ? { kind: 'other', text: take(OTHER) as string } : { kind: 'word', text: word })
  }
  return { tokens, isAmbiguous }
}

/** Where a comment, string, name or blob that begins here ends; -1 when it does not end, null when none begins. */
function endOfEnclosed(sql: string, at: number): number | null {
  const first = sql[at] as string
  if (sql.startsWith('--', at)) {
    const lineEnd = sql.indexOf('\n', at)
    return lineEnd === -1 ? sql.length : lineEnd
  }
  if (sql.startsWith('/*', at)) return after(sql.indexOf('*/', at + 2), 2)
  if (/[xX]/.test(first) && sql[at + 1] === "'") return after(sql.indexOf("'", at + 2), 1)
  const closing = CLOSING[first]
  if (closing === undefined) return null
  let end = sql.indexOf(closing, at + 1)
  if (closing === first) {
    // a quote given twice stands for itself
    while (end !== -1 && sql[end + 1] === first) end = sql.indexOf(first, end + 2)
  }
  return after(end, 1)
}

function after(index: number, length: number): number {
  return index === -1 ? -1 : index + length
}

function enclosedToken(text: string): SqlToken | null {
  const quote = text[0] as string
  if (quote === '-' || quote === '/') return null
  if (quote === 'x' || quote === 'X') return { kind: 'other', text }
  const inner = text.slice(1, -1)
  if (quote === '[') return { kind: 'name', text: inner }
  return { kind: quote === "'" ? 'string' : 'name', text: inner.replaceAll(quote + quote, quote) }
}

/** The tokens of each statement of a text. */
export function statementsOf(tokens: readonly SqlToken[]): (readonly SqlToken[])[] {
  const statements: SqlToken[][] = [[]]
  for (const token of tokens) {
    if (token.kind === 'other' && token.text === ';') statements.push([])
    else statements.at(-1)?.push(token)
  }
  return statements.filter((statement) => statement.length > 0)
}
