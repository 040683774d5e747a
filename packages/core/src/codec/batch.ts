import { type DatabaseOutcome, ProtocolError } from '../base/errors.ts'
import type { WireBatchResult, WireError, WireResult } from '../base/wire.ts'
import { PROBE } from './control.ts'

/** Adds a replication index to the JSON of a statement or a batch. */
export const withIndex = (json: string | undefined, index: string | null): string =>
  `{${index === null ? '' : `"replication_index":"${index}",`}${json?.slice(1)}`

/**
 * Adds a step to a batch and returns its number. @param condition wire JSON of the condition under which the step runs; absent =
 * always
 */
export const addStep = (steps: string[], statementJson: string, condition?: string): number =>
  steps.push(`{"stmt":${statementJson}${condition ? `,"condition":${condition}` : ''}}`) - 1

// Conditions. A skipped step counts as failed.
export const ifOk = (step: number): string => `{"type":"ok","step":${step}}`
export const ifNot = (condition: string): string => `{"type":"not","cond":${condition}}`
const IS_AUTOCOMMIT = '{"type":"is_autocommit"}'
const IN_TRANSACTION = ifNot(IS_AUTOCOMMIT)
export const ifAll = (conditions: readonly string[]): string =>
  `{"type":"and","conds":[${conditions.join()}]}`
/** A condition that never holds. A server that runs such a step ignores conditions. */
export const NEVER = ifNot(ifAll([]))

/**
 * Prevents the statements of a transaction from running outside of it. If the server has ended the transaction (write lock taken
 * over, disk full, OR ROLLBACK, …), later statements would run and be committed on their own.
 */
export interface Guard {
  /**
   * Which requests test whether the server evaluates conditions: each that begins a transaction (until one has shown it), or only a
   * COMMIT. Absent if conditions are not used.
   */
  readonly tested?: 'begin' | 'commit'
  /** Returns the condition under which the next statement may run. */
  next(steps: string[]): string
  /**
   * Adds a step that proves why a COMMIT was skipped. Without it, a response without any results would look as if the server
   * had ended the transaction.
   * @param callSteps the steps of the call: its control statements and then the COMMIT
   * @returns the step that succeeds only if the transaction was lost
   */
  proveLoss(steps: string[], callSteps: readonly number[]): number
  /** Records that step `begin` begins the transaction. */
  recordBegin?(begin: number): void
  /** Ends what a lost transaction has left, after all calls of a request. */
  end?(steps: string[]): void
}

/** The guard for `/v3`, where a condition can test whether a transaction is open. */
export const V3_GUARD: Guard = {
  tested: 'commit',
  next: () => IN_TRANSACTION,
  proveLoss: (steps, callSteps) =>
    addStep(steps, PROBE.json, ifAll([IS_AUTOCOMMIT, ifNot(ifOk(callSteps.at(-1) as number))])),
}

/** The guard for `/v3` until the server has shown that it evaluates conditions. */
export const UNPROVEN_V3_GUARD: Guard = { ...V3_GUARD, tested: 'begin' }

/** Returns the error of a request to a server that runs steps whose conditions do not hold. */
export const ignoredConditionsError = (outcome: DatabaseOutcome): ProtocolError =>
  new ProtocolError('the server ignores the conditions of steps: use one that evaluates them', { outcome })

/** Reads the response to a batch of `length` steps. @throws ProtocolError if it is malformed */
export function decodeBatch(value: unknown, length: number): WireBatchResult {
  const batch = value as WireBatchResult | undefined
  const { step_results: results, step_errors: errors } = batch ?? {}
  if (
    !Array.isArray(results) ||
    !Array.isArray(errors) ||
    results.length !== length ||
    errors.length !== length
  )
    throw new ProtocolError(`the response does not have ${length} results`)
  for (let step = 0; step < length; step++) {
    const result = results[step] as Partial<WireResult> | null
    const error = errors[step] as unknown
    if (
      (result !== null && (error !== null || !Array.isArray(result.cols))) ||
      (error !== null && !isWireError(error))
    )
      throw new ProtocolError(`the response has no result for step ${step}`)
  }
  return batch as WireBatchResult
}

export const isWireError = (error: unknown): error is WireError =>
  typeof (error as Partial<WireError> | null)?.message === 'string'
