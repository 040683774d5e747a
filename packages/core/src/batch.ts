import { ProtocolError, SqlError } from './errors.ts'
import { type ArrayRow, type DecodeOptions, decodeResult, type ObjectRow, type ResultSet } from './result.ts'
import type { EncodedStatement } from './statement.ts'
import type { WireBatchResult, WireStreamResult } from './wire.ts'

/**
 * How a transaction takes its place among others: `immediate` (default) takes the write slot at once, `deferred` with
 * the first write (which fails with SQLITE_BUSY when someone else wrote in between), `readonly` never.
 */
export type TransactionMode = 'immediate' | 'deferred' | 'readonly'

/** The statement that begins a transaction of this mode. */
export const beginStatement = (mode: TransactionMode): string => `BEGIN ${mode.toUpperCase()}`

// Conditions of a step, as wire JSON.
export const ifOk = (step: number): string => `{"type":"ok","step":${step}}`
export const ifError = (step: number): string => `{"type":"error","step":${step}}`
export const ifInTransaction = '{"type":"not","cond":{"type":"is_autocommit"}}'
export const ifAll = (conditions: readonly string[]): string =>
  conditions.length === 1 ? (conditions[0] as string) : `{"type":"and","conds":[${conditions.join()}]}`

/** Collects the steps of one batch request. */
export class BatchSteps {
  readonly #steps: string[] = []

  /** Adds a step and returns its number. @param condition wire JSON; absent = always */
  add(statementJson: string, condition?: string): number {
    return (
      this.#steps.push(
        `{"stmt":${statementJson}${condition === undefined ? '' : `,"condition":${condition}`}}`,
      ) - 1
    )
  }

  /** Adds SQL of our own. */
  addSql(sql: string, condition?: string): number {
    return this.add(`{"sql":${JSON.stringify(sql)}}`, condition)
  }

  get length(): number {
    return this.#steps.length
  }

  toRequest(): string {
    return `{"type":"batch","batch":{"steps":[${this.#steps.join()}]}}`
  }
}

/**
 * Adds statements of which each runs only when the one before succeeded, so that nothing follows a failure, also when
 * the server goes on with a batch whose client has left.
 * @returns the number of the first step
 */
export function addChain(
  steps: BatchSteps,
  statements: readonly EncodedStatement[],
  condition?: string,
): number {
  const first = steps.length
  let guard = condition
  for (const statement of statements) guard = ifOk(steps.add(statement.json, guard))
  return first
}

/** Writes the statements as one atomic batch: begin, the chain, commit, and rollback when the commit did not happen. */
export function atomicBatch(
  statements: readonly EncodedStatement[],
  mode: TransactionMode,
): { steps: BatchSteps; first: number; commit: number } {
  const steps = new BatchSteps()
  const begin = steps.addSql(beginStatement(mode))
  const first = addChain(steps, statements, ifOk(begin))
  const commit = steps.addSql('COMMIT', ifOk(steps.length - 1))
  steps.addSql('ROLLBACK', `{"type":"not","cond":${ifOk(commit)}}`)
  return { steps, first, commit }
}

/** Takes the batch out of its answer. @throws SqlError when the server refused it as a whole, before the first step */
export function batchResult(result: WireStreamResult | undefined, sql: string | null): WireBatchResult {
  if (result?.type === 'error') throw new SqlError(result.error, sql)
  const batch = result?.response.result as WireBatchResult | undefined
  if (!Array.isArray(batch?.step_results) || !Array.isArray(batch.step_errors))
    throw new ProtocolError('a batch without step results')
  return batch
}

/**
 * Reads the results of a chain that began at step `first`.
 * @throws SqlError with `statementIndex` and the results before it, for the first statement that failed
 */
export function chainResults(
  batch: WireBatchResult,
  first: number,
  statements: readonly EncodedStatement[],
  decode: DecodeOptions,
): ResultSet<ObjectRow | ArrayRow>[] {
  const results: ResultSet<ObjectRow | ArrayRow>[] = []
  for (const [at, { sql }] of statements.entries()) {
    const error = batch.step_errors[first + at]
    if (error) throw new SqlError(error, sql, at, results)
    const result = batch.step_results[first + at]
    if (!result) throw new ProtocolError(`statement ${at} of the batch was not executed`)
    results.push(decodeResult(result, decode))
  }
  return results
}
