import { parseError, parseStatements, type Statement } from '@batonsql/server-common/sql'
import { findSyntaxProblem, type SyntaxProblem } from './error-mapping.ts'

/** Compiles a statement without side effects, on a connection without tables. @returns the message of its error, or null */
export type SyntaxCheck = (sql: string) => string | null

/**
 * Parses SQL text into statements.
 * @param dropsIncomplete whether an incomplete statement is silently dropped after an accepted one, as in libsql-server
 * @throws ResultError for a syntax error
 */
export function parseChecked(
  text: string,
  check: SyntaxCheck,
  dropsIncomplete: boolean,
): readonly Statement[] {
  const accepted: Statement[] = []
  const checkedTexts = new Set<string>()
  let wasDropped = false
  for (const statement of parseStatements(text)) {
    // a dump often has the same statement many times
    const isChecked = checkedTexts.has(statement.sql)
    const problem = isChecked ? null : findProblem(text, statement, accepted.length === 0, check)
    if (problem !== null) {
      if (!dropsIncomplete || accepted.length === 0 || !problem.isIncomplete || wasDropped)
        throw problem.error
      wasDropped = true
      continue
    }
    wasDropped = false
    if (statement.kind === 'unknown') throw parseError(`unsupported statement: ${text}`)
    checkedTexts.add(statement.sql)
    accepted.push(statement)
  }
  return accepted
}

function findProblem(
  text: string,
  statement: Statement,
  isFirst: boolean,
  check: SyntaxCheck,
): SyntaxProblem | null {
  const message = check(statement.sql)
  // without tables, only syntax errors matter
  return message === null ? null : findSyntaxProblem(message, text, statement, isFirst)
}
