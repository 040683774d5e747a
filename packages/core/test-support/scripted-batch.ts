type Condition =
  | { readonly type: 'ok' | 'error'; readonly step: number }
  | { readonly type: 'not'; readonly cond: Condition }
  | { readonly type: 'and' | 'or'; readonly conds: readonly Condition[] }
  | { readonly type: 'is_autocommit' }

export interface ScriptedStep {
  readonly stmt: { readonly sql: string }
  readonly condition?: Condition
}

/**
 * The answer of a server to a batch in a transaction that is there: each step succeeds whose condition holds.
 * @param errorOf the error of a step instead
 */
export function batchAnswer(
  steps: readonly ScriptedStep[],
  result: unknown,
  errorOf: (sql: string) => object | null = () => null,
): { readonly step_results: unknown[]; readonly step_errors: (object | null)[] } {
  const results: unknown[] = []
  const errors: (object | null)[] = []
  const holds = (condition: Condition | undefined): boolean => {
    switch (condition?.type) {
      case undefined:
        return true
      case 'ok':
        return results[condition.step] !== null
      case 'error':
        return results[condition.step] === null
      case 'not':
        return !holds(condition.cond)
      case 'and':
        return condition.conds.every(holds)
      case 'or':
        return condition.conds.some(holds)
      case 'is_autocommit':
        return false
    }
  }
  for (const { stmt, condition } of steps) {
    const runs = holds(condition)
    const error = runs ? errorOf(stmt.sql) : null
    errors.push(error)
    results.push(runs && !error ? result : null)
  }
  return { step_results: results, step_errors: errors }
}
