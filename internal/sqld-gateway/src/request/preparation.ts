import { explainedStatement, type SqlToken } from './sql-tokens.ts'

const HARMLESS_TO_PREPARE =
  /^(?:select|values|with|insert|replace|update|delete|begin|commit|end|rollback|savepoint|release|pragma|attach|detach)$/i

/** Whether preparing a statement, or the one that it explains, changes nothing: libSQL executes the DDL of vector indexes then. */
export function isHarmlessToPrepare(statement: readonly SqlToken[]): boolean {
  const [first] = explainedStatement(statement)
  return first?.kind === 'word' && HARMLESS_TO_PREPARE.test(first.text)
}
