/** Kind of a token, as needed for splitting, classifying and rewriting statements. */
type TokenKind = 'word' | 'quoted' | 'string' | 'number' | 'parameter' | 'symbol' | 'rows' | 'unterminated'

export interface Token {
  readonly kind: TokenKind
  readonly start: number
  readonly end: number
}

const WORD_START = /[A-Za-z_\u0080-\uffff]/
const WORD = /[A-Za-z0-9_$\u0080-\uffff]*/y
const NUMBER = /(?:0[xX][0-9a-fA-F]*|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[A-Za-z0-9_$]*/y
const PARAMETER = /\?[0-9]*|[:@#$][A-Za-z0-9_$\u0080-\uffff]+/y
const BLANK = /[ \t\n\f\r]+|--[^\n]*|\/\*[\s\S]*?\*\//y

/**
 * Tokenizes SQL text as the service does, skipping white space and comments. Rows of literals after VALUES are one token of the kind
 * `rows`, because there may be hundreds of thousands of them.
 */
export function scanSql(sql: string): Token[] {
  const tokens: Token[] = []
  visitTokens(sql, (token) => void tokens.push(token))
  return tokens
}

/** Calls a function with each token. @param onLiteral called for each literal in rows after VALUES */
export function visitTokens(sql: string, onToken: (token: Token) => void, onLiteral = (): void => {}): void {
  for (let token = nextToken(sql, 0); token !== null; token = nextToken(sql, token.end)) {
    onToken(token)
    if (token.end - token.start !== VALUES.length || getKeyword(sql, token) !== VALUES) continue
    const rows = scanLiteralRows(sql, token.end, onLiteral)
    if (rows === null) continue
    onToken(rows)
    token = rows
  }
}

const VALUES = 'VALUES'

/** Returns the rows of literals that begin at an offset; null if there are none. */
function scanLiteralRows(sql: string, offset: number, onLiteral: () => void): Token | null {
  let start = -1
  let end = -1
  for (let next: number | null = offset; next !== null; ) {
    const opening = nextToken(sql, next)
    const rowEnd = opening === null ? null : findLiteralRowEnd(sql, opening, onLiteral)
    if (opening === null || rowEnd === null) break
    if (start === -1) start = opening.start
    end = rowEnd
    const comma = nextToken(sql, end)
    next = isSymbol(sql, comma, ',') ? comma.end : null
  }
  // parsers may end the text at NUL
  const isData = start !== -1 && !sql.slice(start, end).includes('\0')
  return isData ? { kind: 'rows', start, end } : null
}

/** Returns the end of the row of literals that a token opens; null if it opens none. */
function findLiteralRowEnd(sql: string, opening: Token, onLiteral: () => void): number | null {
  if (!isSymbol(sql, opening, '(')) return null
  for (let token: Token | null = opening; token !== null; ) {
    let literal = nextToken(sql, token.end)
    if (isSymbol(sql, literal, '-') || isSymbol(sql, literal, '+')) literal = nextToken(sql, literal.end)
    if (literal === null || !isLiteral(sql, literal)) return null
    onLiteral()
    token = nextToken(sql, literal.end)
    if (isSymbol(sql, token, ')')) return token.end
    if (!isSymbol(sql, token, ',')) return null
  }
  return null
}

function isLiteral(sql: string, token: Token): boolean {
  return token.kind === 'number' || token.kind === 'string' || getKeyword(sql, token) === 'NULL'
}

function isSymbol(sql: string, token: Token | null, symbol: string): token is Token {
  return token?.kind === 'symbol' && sql[token.start] === symbol
}

/** Returns the first token at or after an offset; null at the end of the text. */
function nextToken(sql: string, offset: number): Token | null {
  let start = offset
  // a pattern for all of them would overflow the stack
  for (let end = matchEnd(BLANK, sql, start); end > start; end = matchEnd(BLANK, sql, start)) start = end
  return start < sql.length ? scanToken(sql, start) : null
}

function scanToken(sql: string, start: number): Token {
  const first = sql.charAt(start)
  if (sql.startsWith('/*', start)) return { kind: 'unterminated', start, end: sql.length }
  if (first === "'") return scanQuoted(sql, start, "'", 'string')
  if (first === '"' || first === '`') return scanQuoted(sql, start, first, 'quoted')
  if (first === '[') return scanEnclosed(sql, start, ']', 'quoted', 1)
  // a blob literal has no escaped quotes
  if ((first === 'x' || first === 'X') && sql[start + 1] === "'")
    return scanEnclosed(sql, start, "'", 'string', 2)
  if (WORD_START.test(first)) return { kind: 'word', start, end: matchEnd(WORD, sql, start) }
  const number = matchEnd(NUMBER, sql, start)
  if (number > start) return { kind: 'number', start, end: number }
  const parameter = matchEnd(PARAMETER, sql, start)
  if (parameter > start) return { kind: 'parameter', start, end: parameter }
  return { kind: 'symbol', start, end: start + 1 }
}

/** Returns the token that ends at the next `close`. @param skip length of its opening delimiter */
function scanEnclosed(sql: string, start: number, close: string, kind: TokenKind, skip: number): Token {
  const end = sql.indexOf(close, start + skip)
  return end < 0 ? { kind: 'unterminated', start, end: sql.length } : { kind, start, end: end + 1 }
}

/** Returns the token that ends at the next quote that is not doubled. */
function scanQuoted(sql: string, start: number, quote: string, kind: TokenKind): Token {
  let offset = start + 1
  for (;;) {
    const close = sql.indexOf(quote, offset)
    if (close < 0) return { kind: 'unterminated', start, end: sql.length }
    if (sql[close + 1] !== quote) return { kind, start, end: close + 1 }
    offset = close + 2
  }
}

function matchEnd(pattern: RegExp, sql: string, start: number): number {
  pattern.lastIndex = start
  return pattern.test(sql) ? pattern.lastIndex : start
}

/** The tokens of a statement, without its semicolon. */
export interface StatementRange {
  readonly tokens: readonly Token[]
  /** Offset after the last character, including the semicolon. */
  readonly end: number
}

/**
 * Splits tokens into statements, omitting empty ones. Semicolons in the body of a trigger do not end the statement: it ends at the
 * `;` after the `END` that follows a `;` (SQLite's own rule for complete input).
 */
export function splitStatements(sql: string, tokens: readonly Token[]): StatementRange[] {
  const ranges: StatementRange[] = []
  let first = 0
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index] as Token
    if (token.kind !== 'symbol' || sql[token.start] !== ';') continue
    if (isTrigger(sql, tokens, first) && !isTriggerEnd(sql, tokens, first, index)) continue
    if (index > first) ranges.push({ tokens: tokens.slice(first, index), end: token.end })
    first = index + 1
  }
  if (first < tokens.length) ranges.push({ tokens: tokens.slice(first), end: sql.length })
  return ranges
}

function isTrigger(sql: string, tokens: readonly Token[], first: number): boolean {
  let index = first
  if (getKeyword(sql, tokens[index]) === 'EXPLAIN') {
    index += 1
    if (getKeyword(sql, tokens[index]) === 'QUERY') index += 2
  }
  if (getKeyword(sql, tokens[index]) !== 'CREATE') return false
  const next = getKeyword(sql, tokens[index + 1])
  return (
    next === 'TRIGGER' ||
    ((next === 'TEMP' || next === 'TEMPORARY') && getKeyword(sql, tokens[index + 2]) === 'TRIGGER')
  )
}

function isTriggerEnd(sql: string, tokens: readonly Token[], first: number, index: number): boolean {
  if (index - first < 2 || getKeyword(sql, tokens[index - 1]) !== 'END') return false
  const previous = tokens[index - 2] as Token
  return previous.kind === 'symbol' && sql[previous.start] === ';'
}

/** Returns a bare word in upper case; an empty string for other tokens. */
export function getKeyword(sql: string, token: Token | undefined): string {
  return token?.kind === 'word' ? sql.slice(token.start, token.end).toUpperCase() : ''
}

/** Returns the unquoted name of an identifier; null for other tokens. */
export function unquoteIdentifier(sql: string, token: Token | undefined): string | null {
  if (token === undefined) return null
  const text = sql.slice(token.start, token.end)
  if (token.kind === 'word') return text
  if (token.kind !== 'quoted') return null
  const quote = text.charAt(0)
  return quote === '[' ? text.slice(1, -1) : text.slice(1, -1).replaceAll(quote + quote, quote)
}
