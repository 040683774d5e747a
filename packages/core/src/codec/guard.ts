import { type DatabaseOutcome, ProtocolError } from '../base/errors.ts'
import { addStep, IS_AUTOCOMMIT, ifAll, ifNot, ifOk } from './batch.ts'
import { PROBE } from './control.ts'

/**
 * Uses the conditions of steps to keep the statements of a transaction from running outside of it. If the server has ended the
 * transaction (write lock taken over, disk full, OR ROLLBACK, …), later statements would run and be committed on their own.
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

const IN_TRANSACTION = ifNot(IS_AUTOCOMMIT)

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
