import type { Statement, WireRequest } from './wire-model.ts'

/** Statements that clients add around those of the user. */
const CONTROL = /^\s*(begin|commit|end|rollback|savepoint|release)\b/i
/** Baton's own: it runs only if the transaction was lost, and so proves that it was not. */
const PROBE = /^\s*select 1\s*$/i

/** Whether a statement only begins or ends a transaction or a savepoint. */
export const isControl = ({ sql }: Statement): boolean => CONTROL.test(sql)

/** Returns the statements of a request that are not there to guard a transaction. */
export function ownStatements({ statements, outcomes }: WireRequest): readonly Statement[] {
  if (statements.length < 2) return statements
  const isGuard = ({ sql }: Statement, at: number): boolean =>
    outcomes[at] === 'skipped' && (PROBE.test(sql) || /^\s*rollback\b/i.test(sql))
  const asked = statements.filter((statement, at) => !isGuard(statement, at))
  const own = asked.filter((statement) => !isControl(statement))
  return own.length === 0 ? asked : own
}

/** Says what it means that a statement was skipped, where that is not a failure. */
export function skippedText({ sql }: Statement, request: WireRequest): string {
  const hasFailed = request.outcomes.some((outcome) => typeof outcome === 'object')
  if (hasFailed) return 'skipped, because an earlier statement failed'
  if (/^\s*rollback\b/i.test(sql)) return 'not needed: the COMMIT took effect'
  if (PROBE.test(sql)) return "the client's guard: it runs only if the transaction was lost"
  return 'skipped'
}
