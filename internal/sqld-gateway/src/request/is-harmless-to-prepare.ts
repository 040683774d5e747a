import { explainedStatement, type SqlToken } from './sql-tokens.ts'

// some PRAGMAs take effect when they are prepared: `findPragmaRejection` checks those
const HARMLESS_TO_PREPARE =
  /^(?:select|values|with|insert|replace|update|delete|begin|commit|end|rollback|savepoint|release|pragma|attach|detach)$/i

/**
 * Whether preparing a statement, or the one that it explains, has no effect. Any other statement may have one: libSQL, for example,
 * creates a vector index when its CREATE INDEX is prepared.
 */
export function isHarmlessToPrepare(statement: readonly SqlToken[]): boolean {
  const [first] = explainedStatement(statement)
  return first?.kind === 'word' && HARMLESS_TO_PREPARE.test(first.text)
}
