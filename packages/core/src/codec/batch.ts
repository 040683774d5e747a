import { ProtocolError } from '../base/errors.ts'
import type { WireBatchResult, WireError, WireResult } from '../base/wire.ts'

/** Adds a replication index to the JSON of a statement, a batch or a request to describe one. */
export const withIndex = (json: string | undefined, index: string | null): string =>
  `{${index === null ? '' : `"replication_index":"${index}",`}${json?.slice(1)}`

/**
 * Adds a step to a batch and returns its number.
 * @param condition wire JSON of the condition under which the step runs; absent = always
 */
export const addStep = (steps: string[], statementJson: string, condition?: string): number =>
  steps.push(`{"stmt":${statementJson}${condition ? `,"condition":${condition}` : ''}}`) - 1

// Conditions. A skipped step counts as failed.
export const ifOk = (step: number): string => `{"type":"ok","step":${step}}`
export const ifNot = (condition: string): string => `{"type":"not","cond":${condition}}`
export const IS_AUTOCOMMIT = '{"type":"is_autocommit"}'
export const ifAll = (conditions: readonly string[]): string =>
  `{"type":"and","conds":[${conditions.join()}]}`
/** A condition that never holds. A server that runs such a step ignores conditions. */
export const NEVER = ifNot(ifAll([]))

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
