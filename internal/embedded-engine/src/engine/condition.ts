import { type Condition, PipelineFailure } from '@batonsql/server-common/hrana'

/** State of a running batch that conditions refer to. */
export interface BatchState {
  isOk(step: number): boolean
  isAutocommit(): boolean
}

/**
 * Rejects a condition that refers to a step that is not earlier, or that an older protocol does not have.
 * @param index position of the step that has the condition
 */
export function checkCondition(condition: Condition, index: number, version: 2 | 3): void {
  switch (condition.type) {
    case 'ok':
    case 'error':
      if (condition.step < index) return
      throw PipelineFailure.protocol('Invalid reference to step in a batch condition')
    case 'not':
      return checkCondition(condition.condition, index, version)
    case 'and':
    case 'or':
      for (const inner of condition.conditions) checkCondition(inner, index, version)
      return
    case 'is_autocommit':
      if (version >= 3) return
      throw PipelineFailure.protocol(
        'BatchCond of type `is_autocommit` is only supported in protocol version hrana3 and higher',
      )
    default:
      condition satisfies never
  }
}

/** Evaluates the condition of a step. A skipped step counts as an error. */
export function evaluateCondition(condition: Condition, state: BatchState): boolean {
  switch (condition.type) {
    case 'ok':
      return state.isOk(condition.step)
    case 'error':
      return !state.isOk(condition.step)
    case 'not':
      return !evaluateCondition(condition.condition, state)
    case 'and':
      return condition.conditions.every((inner) => evaluateCondition(inner, state))
    case 'or':
      return condition.conditions.some((inner) => evaluateCondition(inner, state))
    case 'is_autocommit':
      return state.isAutocommit()
    default:
      return condition satisfies never
  }
}
