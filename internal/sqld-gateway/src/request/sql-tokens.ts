import { scanSql, type Token, unquoteIdentifier } from '@batonsql/server-common/sql'

/** A token of SQL text; names and strings are unquoted. */
export interface SqlToken {
  /**
   * `word`: bare identifier or keyword · `name`: in double quotes, backticks or brackets · `string`: in single quotes, or the text of
   * rows of literals.
   */
  readonly kind: 'word' | 'name' | 'string' | 'other'
  readonly text: string
}

export interface TokenizedSql {
  readonly tokens: readonly SqlToken[]
  /**
   * Whether parsers may disagree about the end of a token: the server parses the text itself and hands parts of it to SQLite.
   */
  readonly isAmbiguous: boolean
}

/** Characters that end the text for one parser and are white space or part of a word for another. */
const AMBIGUOUS = /^[\0\v\ufeff]+/

/** Tokenizes SQL for the guard. @param scannedTokens tokens of the text, or of a statement in it */
export function tokenizeSql(sql: string, scannedTokens: readonly Token[] = scanSql(sql)): TokenizedSql {
  const tokens: SqlToken[] = []
  let isAmbiguous = false
  for (let index = 0; index < scannedTokens.length; index += 1) {
    const token = scannedTokens[index] as Token
    const { kind, start, end } = token
    const text = sql.slice(start, end)
    if (AMBIGUOUS.test(text)) {
      isAmbiguous = true
      const rest = text.replace(AMBIGUOUS, '')
      if (rest !== '') tokens.push({ kind: 'word', text: rest })
    } else if (kind === 'parameter' && text[0] !== '?' && sql[end] === '(') {
      // `$a(…)` is one token for SQLite
      isAmbiguous = true
      index += 1
    } else if (kind === 'unterminated') {
      isAmbiguous = true
      tokens.push({ kind: 'name', text })
    } else if (kind === 'word') tokens.push({ kind, text })
    else if (kind === 'quoted') tokens.push({ kind: 'name', text: unquoteIdentifier(sql, token) ?? '' })
    else if (kind === 'string' && text[0] === "'")
      tokens.push({ kind, text: text.slice(1, -1).replaceAll("''", "'") })
    else if (kind === 'rows') tokens.push({ kind: 'string', text })
    else tokens.push({ kind: 'other', text })
  }
  return { tokens, isAmbiguous }
}

/** Splits the tokens of SQL text into statements. Each statement in the body of a trigger becomes a statement of its own. */
export function splitTokens(tokens: readonly SqlToken[]): (readonly SqlToken[])[] {
  const statements: SqlToken[][] = [[]]
  for (const token of tokens) {
    if (token.kind === 'other' && token.text === ';') statements.push([])
    else statements.at(-1)?.push(token)
  }
  return statements.filter((statement) => statement.length > 0)
}

/** Whether a token is this bare word. */
export function isWord(token: SqlToken | undefined, text: string): boolean {
  return token?.kind === 'word' && token.text.toLowerCase() === text
}

/** Returns the statement that an EXPLAIN explains, or the statement itself. */
export function explainedStatement(statement: readonly SqlToken[]): readonly SqlToken[] {
  if (!isWord(statement[0], 'explain')) return statement
  const isQueryPlan = isWord(statement[1], 'query') && isWord(statement[2], 'plan')
  return statement.slice(isQueryPlan ? 3 : 1)
}
