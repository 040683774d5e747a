import { describeType } from '@batonsql/options'
import { BLANK } from './verb.ts'

/** A statement of a script with its position. */
export interface ScriptStatement {
  /** Its text, without the semicolon and without comments before it. */
  readonly sql: string
  /** Where it begins, counted from 1. */
  readonly line: number
  readonly column: number
}

/**
 * Splits a script into statements by SQLite's rules for quotes, comments, and trigger bodies, which end with `; END;`. An unterminated
 * comment is rejected, as by the servers, although SQLite accepts it. So is an unterminated trigger, which libsql-server silently
 * ignores after another statement.
 * @throws SyntaxError with line and column of an unterminated quote, comment or trigger; TypeError unless it is a string
 */
export function splitStatements(script: string): ScriptStatement[] {
  if (typeof script !== 'string')
    throw new TypeError(`expected SQL as a string, not ${describeType(script)}; use batch() for arguments`)
  return Array.from(scanStatements(script), ({ statement }) => statement)
}

/**
 * Returns the position of the semicolon that ends a statement, or of the end of the script, by SQLite's rules.
 * @throws SyntaxError for an unterminated quote, comment or trigger
 */
export const findStatementEnd = (script: string, start: number): number =>
  matchAt(TRIGGER, script, start) === null ? findPlainEnd(script, start) : findTriggerEnd(script, start)

/**
 * Yields each statement with the position of its end, which includes its semicolon, if any.
 * @param findEnd replaces {@link findStatementEnd} for a dump, in which some statements do not follow SQLite's rules
 */
export function* scanStatements(
  script: string,
  findEnd = findStatementEnd,
): Generator<{ readonly statement: ScriptStatement; readonly end: number }, void, undefined> {
  const positions = new Positions(script)
  for (let end = 0; ; ) {
    const start = skipBlanks(script, end)
    if (start === script.length) return
    let last = findEnd(script, start)
    end = Math.min(last + 1, script.length)
    if (last === start) continue
    // trimEnd() would also remove Unicode spaces, which are letters of names in SQLite
    while (' \t\n\f\r'.includes(script.charAt(last - 1))) last -= 1
    yield { statement: { sql: script.slice(start, last), ...positions.at(start) }, end }
  }
}

/** What ends a statement, or begins text in which a semicolon does not. */
const MARK = /['"`[;]|--|\/\*/g
// pure, so that bundles without scripts omit them
const TRIGGER = /* @__PURE__ */ (() => {
  const gap = `(?:${BLANK})+`
  return new RegExp(
    `(?:explain${gap}(?:query${gap}plan${gap})?)?create${gap}(?:temp(?:orary)?${gap})?trigger(?![\\w$\\u0080-\\uffff])`,
    'iy',
  )
})()
const TRIGGER_TOKEN =
  /--|\/\*|['"`[]|[A-Za-z_\u0080-\ufefe\uff00-\uffff][\w$\u0080-\uffff]*|[^ \t\n\f\r\ufeff]/g
const SPACE = /[ \t\n\f\r\ufeff]*/y

function matchAt(pattern: RegExp, script: string, index: number): RegExpExecArray | null {
  pattern.lastIndex = index
  return pattern.exec(script)
}

/** Returns the position after whitespace and comments. */
function skipBlanks(script: string, from: number): number {
  for (let index = from; ; ) {
    index += matchAt(SPACE, script, index)?.[0].length ?? 0
    const mark = script.slice(index, index + 2)
    if (mark !== '--' && mark !== '/*') return index
    index = skipMark(script, index, mark)
  }
}

/** Returns the position of the semicolon after a statement that is not a trigger, or of the end of the script. */
function findPlainEnd(script: string, start: number): number {
  for (let index = start; ; ) {
    const match = matchAt(MARK, script, index)
    if (match === null) return script.length
    if (match[0] === ';') return match.index
    index = skipMark(script, match.index, match[0])
  }
}

/**
 * Returns the position of the semicolon after a trigger, whose body ends with `; END`, or of the end of the script. There, any END is
 * enough: if it ends only a CASE, the server rejects the trigger.
 */
function findTriggerEnd(script: string, start: number): number {
  let lastTokens: [string, string] = ['', '']
  for (let index = start; ; ) {
    const match = matchAt(TRIGGER_TOKEN, script, index)
    if (match === null && lastTokens[1] === 'END') return script.length
    if (match === null) throw unterminatedError(script, start, 'trigger')
    const [token] = match
    if (token === ';' && lastTokens.join(' ') === '; END') return match.index
    const isMark = /^(?:--|\/\*|['"`[])$/.test(token)
    index = isMark ? skipMark(script, match.index, token) : match.index + token.length
    if (token !== '--' && token !== '/*') lastTokens = [lastTokens[1], token.toUpperCase()]
  }
}

/**
 * Returns the position after a quoted text or a comment.
 * @param mark its first characters
 * @throws SyntaxError if it does not end
 */
function skipMark(script: string, index: number, mark: string): number {
  if (mark === '--') {
    const end = script.indexOf('\n', index)
    return end < 0 ? script.length : end
  }
  const close = mark === '/*' ? '*/' : mark === '[' ? ']' : mark
  for (let end = index + mark.length; ; end += 2) {
    end = script.indexOf(close, end)
    if (end < 0) throw unterminatedError(script, index, mark === '/*' ? 'comment' : 'quote')
    // a doubled quote is part of the text
    if (close !== mark || script[end + 1] !== mark) return end + close.length
  }
}

/** Finds lines and columns. */
class Positions {
  readonly #script: string
  #line = 1
  #lineStart = 0
  /** Where the next line begins; kept, so that a long line is not searched again for each statement in it. */
  #nextLine: number

  constructor(script: string) {
    this.#script = script
    this.#nextLine = this.#findNextLine(0)
  }

  #findNextLine(from: number): number {
    return this.#script.indexOf('\n', from) + 1 || Infinity
  }

  /** @param index not before the index of the previous call */
  at(index: number): { readonly line: number; readonly column: number } {
    while (this.#nextLine <= index) {
      this.#line += 1
      this.#lineStart = this.#nextLine
      this.#nextLine = this.#findNextLine(this.#nextLine)
    }
    return { line: this.#line, column: index - this.#lineStart + 1 }
  }
}

function unterminatedError(script: string, index: number, kind: string): SyntaxError {
  return new SyntaxError(`${placeOf(new Positions(script).at(index))}unterminated ${kind}`)
}

/** Returns the beginning of a message about a place in a script. */
export const placeOf = ({ line, column }: Pick<ScriptStatement, 'line' | 'column'>): string =>
  `line ${line}, column ${column}: `
