type Condition =
  | { readonly type: 'ok' | 'error'; readonly step: number }
  | { readonly type: 'not'; readonly cond: Condition }
  | { readonly type: 'and' | 'or'; readonly conds: readonly Condition[] }
  | { readonly type: 'is_autocommit' }

export interface ScriptedStep {
  readonly stmt: { readonly sql: string }
  readonly condition?: Condition
}

/** Whether a condition never holds; the step is for servers that ignore conditions. */
export const isNever = (condition: Condition | undefined): boolean =>
  condition?.type === 'not' && condition.cond.type === 'and' && condition.cond.conds.length === 0

/**
 * Returns a server's response to a batch in an open transaction: each step whose condition is true succeeds.
 * @param getError returns the error of a step; null if it succeeds
 */
export function batchResponse(
  steps: readonly ScriptedStep[],
  result: unknown,
  getError: (sql: string) => object | null = () => null,
): { readonly step_results: unknown[]; readonly step_errors: (object | null)[] } {
  const results: unknown[] = []
  const errors: (object | null)[] = []
  const holds = (condition: Condition): boolean => {
    if (condition.type === 'ok') return results[condition.step] !== null
    if (condition.type === 'error') return results[condition.step] === null
    if (condition.type === 'not') return !holds(condition.cond)
    if (condition.type === 'and') return condition.conds.every(holds)
    return condition.type === 'or' && condition.conds.some(holds)
  }
  for (const { stmt, condition } of steps) {
    const runs = !condition || holds(condition)
    const error = runs ? getError(stmt.sql) : null
    errors.push(error)
    results.push(runs && !error ? result : null)
  }
  return { step_results: results, step_errors: errors }
}
