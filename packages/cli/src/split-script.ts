import { type ScriptStatement, splitStatements } from '@batonsql/core/adapter'

/** Consecutive statements of a script, or a dot command. */
export type ScriptSegment =
  | { readonly statements: readonly ScriptStatement[] }
  | { readonly command: string; readonly line: number }

/** A line that is a dot command if no statement is incomplete before it. */
const DOT_LINE = /^[ \t]*\.[a-z].*$/gim
/**
 * Before each such line, the text is split to find out whether a statement is incomplete. As a long text in quotes can have many such
 * lines, this is limited to the length of the script, this many times, and this number of characters in addition. Dot commands beyond the
 * limit are not recognized.
 */
const MAX_SCANS = 10
const FREE_LENGTH = 1_000_000

/**
 * Splits a script into statements and dot commands, each on a line of its own after a complete statement.
 * @throws SyntaxError with line and column of an unterminated quote, comment or trigger
 */
export function splitScript(script: string): ScriptSegment[] {
  const segments: ScriptSegment[] = []
  let start = 0
  let line = 1
  let remainingLength = script.length * MAX_SCANS + FREE_LENGTH
  const add = (statements: readonly ScriptStatement[]): void => {
    if (statements.length > 0) segments.push({ statements })
  }
  for (const { index, 0: text } of script.matchAll(DOT_LINE)) {
    remainingLength -= index - start
    if (remainingLength < 0) break
    const sql = script.slice(start, index)
    const statements = splitComplete(sql)
    if (statements === null) continue
    add(statements.map((statement) => ({ ...statement, line: statement.line + line - 1 })))
    line += countLines(sql)
    segments.push({ command: text.trim(), line })
    start = index + text.length
  }
  // with as many lines before it, so that the position in an error is that in the script
  add(splitStatements('\n'.repeat(line - 1) + script.slice(start)))
  return segments
}

/** Returns the statements of a script; null if it is incomplete: it does not end with a semicolon, or a quote is open. */
export function splitComplete(script: string): ScriptStatement[] | null {
  try {
    const statements = splitStatements(script)
    // a word after the script begins another statement only if the last one is complete
    return splitStatements(`${script}\nx`).length > statements.length ? statements : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

const countLines = (text: string): number => text.split('\n').length - 1
