import type { ShownStatement, WireRequest } from './wire-model.ts'

/** Matches statements that clients add around the user's own. */
const CONTROL_SQL = /^\s*(begin|commit|end|rollback|savepoint|release)\b/i
/** Matches the guard that Baton adds to a COMMIT: it runs only if the transaction was lost. */
const PROBE_SQL = /^\s*select 1\s*$/i

/** Whether a statement only begins or ends a transaction or a savepoint. */
export const isControl = ({ sql }: ShownStatement): boolean => CONTROL_SQL.test(sql)

/**
 * Returns the statements of a request, without those that begin, end or guard its transaction. If it has no other statements,
 * those that begin or end a transaction are included.
 */
export function getUserStatements({ statements, outcomes }: WireRequest): readonly ShownStatement[] {
  if (statements.length < 2) return statements
  const isGuard = ({ sql }: ShownStatement, index: number): boolean =>
    outcomes[index] === 'skipped' && (PROBE_SQL.test(sql) || /^\s*rollback\b/i.test(sql))
  const requested = statements.filter((statement, index) => !isGuard(statement, index))
  const dataStatements = requested.filter((statement) => !isControl(statement))
  return dataStatements.length === 0 ? requested : dataStatements
}

export function explainSkipped({ sql }: ShownStatement, request: WireRequest): string {
  const hasFailed = request.outcomes.some((outcome) => typeof outcome === 'object')
  if (hasFailed) return 'skipped, because an earlier statement failed'
  if (/^\s*rollback\b/i.test(sql)) return 'not needed: the COMMIT succeeded'
  if (PROBE_SQL.test(sql)) return "the client's guard: it runs only if the transaction was lost"
  return 'skipped'
}
