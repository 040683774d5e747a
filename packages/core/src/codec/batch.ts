import { ProtocolError } from '../base/errors.ts'
import type { WireBatchResult, WireError, WireResult } from '../base/wire.ts'
import { beginStatement, PROBE, ROLLBACK } from './control.ts'

/** Puts a replication index into a statement or a batch. */
export const withIndex = (json: string | undefined, index: string | null): string =>
  `{${index === null ? '' : `"replication_index":"${index}",`}${json?.slice(1)}`

/** Adds a step to those of a batch and returns its number. @param condition wire JSON under which it runs; absent = always */
export const addStep = (steps: string[], statementJson: string, condition?: string): number =>
  steps.push(`{"stmt":${statementJson}${condition ? `,"condition":${condition}` : ''}}`) - 1

// Conditions. A step that was skipped counts as failed.
export const ifOk = (step: number): string => `{"type":"ok","step":${step}}`
export const ifNot = (condition: string): string => `{"type":"not","cond":${condition}}`
const IS_AUTOCOMMIT = '{"type":"is_autocommit"}'
const IN_TRANSACTION = ifNot(IS_AUTOCOMMIT)
const ifAll = (conditions: readonly string[]): string => `{"type":"and","conds":[${conditions.join()}]}`

/**
 * Keeps statements of a transaction from running outside it. The server may have ended the transaction by itself (write
 * lock taken over, disk full, OR ROLLBACK, …); what is sent after that would run, and stay, on its own.
 *
 * On `/v3` the server itself can tell. `/v2` has no such condition, so a BEGIN is tried before each statement: within a
 * transaction it fails and changes nothing; when it succeeds, the transaction was lost, and it is taken back. (A
 * savepoint of ours could not do this: it would swallow the user's own.)
 */
export class TransactionGuard {
  readonly #isV3: boolean
  readonly #inTransaction: string[] = []

  constructor(isV3: boolean) {
    this.#isV3 = isV3
  }

  /** Condition under which the next statement may run. */
  next(steps: string[]): string {
    if (this.#isV3) return IN_TRANSACTION
    const probe = addStep(steps, beginStatement('deferred').json, ifAll(this.#inTransaction))
    addStep(steps, ROLLBACK.json, ifOk(probe))
    this.#inTransaction.push(ifNot(ifOk(probe)))
    return ifAll(this.#inTransaction)
  }

  /**
   * Makes a skipped COMMIT tell why it was skipped. Without this, an answer that says nothing about any step would look like
   * that of a server that had ended the transaction.
   * @param own its step, behind those of control statements that travel with it
   * @returns the step that succeeds in such a case only
   */
  proveLoss(steps: string[], own: readonly number[]): number {
    // on /v2 the BEGIN that was tried before them, and the ROLLBACK of that
    if (!this.#isV3) return (own[0] as number) - 2
    return addStep(steps, PROBE.json, ifAll([IS_AUTOCOMMIT, ifNot(ifOk(own.at(-1) as number))]))
  }

  /** Notes that step `begin` begins the transaction. */
  begun(begin: number): void {
    this.#inTransaction.push(ifOk(begin))
  }
}

/** Reads the answer to a batch of `length` steps. @throws ProtocolError when it is not one */
export function decodeBatch(answer: unknown, length: number): WireBatchResult {
  const batch = answer as WireBatchResult | undefined
  const { step_results: results, step_errors: errors } = batch ?? {}
  if (
    !Array.isArray(results) ||
    !Array.isArray(errors) ||
    results.length !== length ||
    errors.length !== length
  )
    throw new ProtocolError(`the answer does not have ${length} results`)
  for (let step = 0; step < length; step++) {
    const result = results[step] as Partial<WireResult> | null
    const error = errors[step] as unknown
    if (
      (result !== null && (error !== null || !Array.isArray(result.cols))) ||
      (error !== null && !isWireError(error))
    )
      throw new ProtocolError(`the answer has no result of step ${step}`)
  }
  return batch as WireBatchResult
}

export const isWireError = (error: unknown): error is WireError =>
  typeof (error as Partial<WireError> | null)?.message === 'string'
