import { checkControl, isControl, setsForeignKeys, statementKind } from './statement-kind.ts'
import { quotedBy } from './verb.ts'

/** A statement of a script with its position. */
export interface ScriptStatement {
  /** Its text, without the semicolon and without comments before it. */
  readonly sql: string
  /** Where it begins, counted from 1. */
  readonly line: number
  readonly column: number
}

/** The kinds of token, in the order in which they are tried. */
// pure, so that bundles without scripts omit it
const TOKEN = /* @__PURE__ */ (() =>
  new RegExp(
    [
      String.raw`(?<blank>[ \t\n\f\r\ufeff]+|--[^\n]*|/\*[^]*?\*/)`,
      String.raw`(?<quoted>${quotedBy("'")}|${quotedBy('"')}|${quotedBy('`')}|\[[^\]]*\])`,
      String.raw`(?<open>['"${'`'}[]|/\*)`,
      String.raw`(?<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)`,
      String.raw`(?<end>;)`,
      String.raw`[^]`,
    ].join('|'),
    'gy',
  ))()

/** Number of characters that identify a trigger; more than `EXPLAIN QUERY PLAN CREATE TEMPORARY TRIGGER` has. */
const HEAD_LENGTH = 50
const TRIGGER = /^(?:EXPLAIN (?:QUERY PLAN )?)?CREATE (?:TEMP |TEMPORARY )?TRIGGER\b/

/**
 * Splits a script into statements by SQLite's rules for quotes, comments, and trigger bodies, which end with `; END;`. The
 * server silently ignores incomplete text after the first statement.
 * @throws SyntaxError with line and column of an unterminated quote, comment or trigger
 */
export function splitStatements(script: string): ScriptStatement[] {
  return Array.from(scanStatements(script), ({ statement }) => statement)
}

/** Yields each statement with the position of its end, which includes its semicolon, if any. */
export function* scanStatements(
  script: string,
): Generator<{ readonly statement: ScriptStatement; readonly end: number }, void, undefined> {
  let start: { index: number; line: number; column: number } | null = null
  /** The first words, which identify a trigger, and the last two tokens, which end its body. */
  let head = ''
  let lastTokens: [string, string] = ['', '']
  let line = 1
  let lineStart = 0
  for (const { index, groups, 0: text } of script.matchAll(TOKEN)) {
    const position = { line, column: index - lineStart + 1 }
    if (text.includes('\n')) {
      line += text.split('\n').length - 1
      lineStart = index + text.lastIndexOf('\n') + 1
    }
    if (groups?.['blank'] !== undefined) continue
    if (groups?.['open'] !== undefined) throw unterminatedError(position, text === '/*' ? 'comment' : 'quote')
    const isInBody = TRIGGER.test(head) && lastTokens.join(' ') !== '; END'
    if (groups?.['end'] !== undefined && !isInBody) {
      if (start) yield { statement: sliceStatement(script, start, index), end: index + 1 }
      start = null
      head = ''
    } else {
      start ??= { index, ...position }
      if (head.length < HEAD_LENGTH) head += `${text.toUpperCase()} `
    }
    lastTokens = [lastTokens[1], text.toUpperCase()]
  }
  if (start && TRIGGER.test(head) && lastTokens[1] !== 'END') throw unterminatedError(start, 'trigger')
  if (start) yield { statement: sliceStatement(script, start, script.length), end: script.length }
}

function sliceStatement(
  script: string,
  { index, line, column }: { readonly index: number; readonly line: number; readonly column: number },
  end: number,
): ScriptStatement {
  return { sql: script.slice(index, end).trimEnd(), line, column }
}

function unterminatedError({ line, column }: { line: number; column: number }, kind: string): SyntaxError {
  return new SyntaxError(`line ${line}, column ${column}: unterminated ${kind}`)
}

/** Consecutive statements of a script that belong together. */
export interface ScriptPart {
  /** BEGIN and the end of a transaction; null for statements that are committed individually. */
  readonly transaction: { readonly begin: ScriptStatement; readonly end: 'commit' | 'rollback' } | null
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
    cut(index, openBegin && kind !== 'begin' ? { begin: openBegin, end: kind } : null)
    openBegin = kind === 'begin' ? statement : null
  }
  if (openBegin) reject(openBegin, 'the transaction is never committed')
  cut(statements.length, null)
  return parts
}
