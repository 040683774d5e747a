import { describeType } from '@batonsql/options'
import { checkControl, isControl, setsForeignKeys, statementKind } from './statement-kind.ts'
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
 * Splits a script into statements by SQLite's rules for quotes, comments, and trigger bodies, which end with `; END;`. The
 * server silently ignores incomplete text after the first statement.
 * @throws SyntaxError with line and column of an unterminated quote, comment or trigger; TypeError unless it is a string
 */
export function splitStatements(script: string): ScriptStatement[] {
  if (typeof script !== 'string')
    throw new TypeError(`expected SQL as a string, not ${describeType(script)}; use batch() for arguments`)
  return Array.from(scanStatements(script), ({ statement }) => statement)
}

/** Returns the position of the semicolon that ends a statement, by SQLite's rules. @throws SyntaxError */
type FindEnd = (script: string, start: number) => number

const findStatementEnd: FindEnd = (script, start) =>
  matchAt(TRIGGER, script, start) === null ? findEnd(script, start) : findTriggerEnd(script, start)

/**
 * Yields each statement with the position of its end, which includes its semicolon, if any.
 * @param correctEnd returns the end of a statement that does not follow SQLite's rules
 */
export function* scanStatements(
  script: string,
  correctEnd?: (script: string, start: number, findEnd: FindEnd) => number,
): Generator<{ readonly statement: ScriptStatement; readonly end: number }, void, undefined> {
  const positions = new Positions(script)
  for (let end = 0; ; ) {
    const start = skipBlanks(script, end)
    if (start === script.length) return
    const last = correctEnd ? correctEnd(script, start, findStatementEnd) : findStatementEnd(script, start)
    end = Math.min(last + 1, script.length)
    if (last > start) {
      const sql = script.slice(start, last).trimEnd()
      yield { statement: { sql, ...positions.at(start) }, end }
    }
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
const TRIGGER_TOKEN = /--|\/\*|['"`[]|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*|[^ \t\n\f\r\ufeff]/g
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
function findEnd(script: string, start: number): number {
  for (let index = start; ; ) {
    const match = matchAt(MARK, script, index)
    if (match === null) return script.length
    if (match[0] === ';') return match.index
    index = skipMark(script, match.index, match[0])
  }
}

/** Returns the position of the semicolon after a trigger, whose body ends with `; END`, or of the end of the script. */
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
  const { line, column } = new Positions(script).at(index)
  return new SyntaxError(`line ${line}, column ${column}: unterminated ${kind}`)
}

/** Consecutive statements of a script that belong together. */
export interface ScriptPart {
  /** The control statements of a transaction; null for statements that are committed individually. */
  readonly transaction: {
    readonly begin: ScriptStatement
    readonly end: ScriptStatement
    readonly endKind: 'commit' | 'rollback'
  } | null
  readonly statements: readonly ScriptStatement[]
  /** Position of its first statement in the script, from 0. */
  readonly offset: number
}

/** Divides a script into transactions and other statements. @throws SyntaxError if BEGIN and its end do not match */
export function splitIntoParts(statements: readonly ScriptStatement[]): ScriptPart[] {
  const parts: ScriptPart[] = []
  let openBegin: ScriptStatement | null = null
  let from = 0
  const cut = (to: number, transaction: ScriptPart['transaction']): void => {
    if (to > from || transaction)
      parts.push({ transaction, statements: statements.slice(from, to), offset: from })
    from = to + 1
  }
  const reject = ({ line, column }: ScriptStatement, message: string): never => {
    throw new SyntaxError(`line ${line}, column ${column}: ${message}`)
  }
  for (const [index, statement] of statements.entries()) {
    const kind = statementKind(statement.sql)
    if (!isControl(kind)) {
      // SQLite would begin a transaction that never ends
      if (!openBegin && (kind === 'savepoint' || kind === 'release'))
        reject(statement, 'a savepoint outside a transaction: put BEGIN and COMMIT around it')
      if (openBegin && setsForeignKeys(statement.sql, kind))
        reject(statement, 'PRAGMA foreign_keys has no effect inside a transaction: put it before BEGIN')
      continue
    }
    if ((kind === 'begin') !== (openBegin === null))
      reject(statement, openBegin ? 'a transaction is already open' : 'no transaction is open')
    checkControl(statement.sql, `line ${statement.line}, column ${statement.column}: `)
    cut(index, openBegin && kind !== 'begin' ? { begin: openBegin, end: statement, endKind: kind } : null)
    openBegin = kind === 'begin' ? statement : null
  }
  if (openBegin) reject(openBegin, 'the transaction is never committed')
  cut(statements.length, null)
  return parts
}
