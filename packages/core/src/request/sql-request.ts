import { asNotApplied, ProtocolError, SqlError, type StreamError } from '../base/errors.ts'
import { TRANSACTION_WINDOW_MS } from '../base/limits.ts'
import type { WireBatchResult, WireError, WireResult, WireStreamResult } from '../base/wire.ts'
import {
  addStep,
  decodeBatch,
  type Guard,
  ifNot,
  ifOk,
  ignoredConditionsError,
  isWireError,
  NEVER,
  withIndex,
} from '../codec/batch.ts'
import { beginStatement, COMMIT, type ControlStatement, ROLLBACK } from '../codec/control.ts'
import type { InsertedRowids } from '../codec/inserted-rowids.ts'
import { decodeResult } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { IntMode } from '../codec/value.ts'
import { needsWriteLock, type QueuedCall, type Results } from './queued-call.ts'

/** What the stream must do after a response. */
export interface SettleResult {
  /** Calls to be sent again, because nothing ran. */
  readonly retry?: readonly QueuedCall[]
  /** Control statements that did not run and must be sent again. */
  readonly prefix?: readonly ControlStatement[]
  /** Whether none of the request was executed. */
  readonly ranNothing?: boolean
  /** Whether the response shows that the server evaluates conditions. */
  readonly evaluatesConditions?: boolean
}

/** The context in which results are read. */
export interface SettleContext {
  readonly intMode: IntMode
  readonly rowids: InsertedRowids
  /** Declares the transaction lost; absent where no transaction is possible. */
  readonly markLost?: MarkLost
}

/** Declares a stream and its transaction lost. @returns the error; if they were already lost, the first one */
export type MarkLost = (code: StreamError['code'], message: string, cause?: unknown) => StreamError

/** Encodes the SQL operation of one request and hands its results to the calls. */
export class SqlRequest {
  readonly calls: readonly QueuedCall[]
  /** Whether it changes nothing, and may therefore be sent twice as the first request of a stream. */
  readonly isReadOnly: boolean
  /** Whether it acquires the write lock, judging by its SQL. */
  readonly needsWriteLock: boolean
  /** Whether it determines the snapshot: the first of a transaction, or one outside of it. */
  readonly isFirst: boolean
  /** Whether it was encoded for a request, which may have been sent and executed. */
  isEncoded = false
  /** The step numbers of each call: those of the prefix, of the statements, and of the COMMIT of an atomic batch. */
  #steps: number[][] = []
  #length = 0
  /** The step that succeeds if the transaction of a COMMIT no longer exists. */
  #lossProof = -1
  /**
   * The ROLLBACK of the test whether the server evaluates conditions, -1 before it was added, or null without a test. Every server
   * must skip this step and the first one.
   */
  #test: number | null = null
  /** The step that the server only parses. */
  #parsed: number | null = null

  constructor(calls: readonly QueuedCall[]) {
    const [{ scope, prefix }] = calls as [QueuedCall]
    this.calls = calls
    this.isFirst = scope !== 'transaction' || prefix[0]?.kind === 'begin'
    this.isReadOnly = calls.every(({ isReadOnly }) => isReadOnly)
    this.needsWriteLock = calls.some(needsWriteLock)
  }

  /** Encodes the operation as wire JSON. */
  encode(guard: Guard, index: string | null = null): string {
    this.isEncoded = true
    const [call] = this.calls as [QueuedCall]
    if (call.scope === 'autocommit')
      return `{"type":"execute","stmt":${withIndex(call.statements[0]?.json, index)}}`
    return `{"type":"batch","batch":${this.encodeBatch(guard, index)}}`
  }

  /** Encodes the operation as the JSON of a batch. */
  encodeBatch(guard: Guard, index: string | null): string {
    return withIndex(`{"steps":[${this.encodeSteps(guard).join()}]}`, index)
  }

  /** Encodes the steps of a batch. */
  encodeSteps(guard: Guard): string[] {
    const steps: string[] = []
    this.#parsed = null
    this.#startTest(steps, guard)
    this.#steps = this.calls.map(({ prefix, statements, parsedOnly, scope, transactionEnd }) => {
      const callSteps: number[] = []
      // each step depends on the previous one: the server continues a batch whose client has disconnected
      const add = (json: string, isUnconditional = false): void => {
        let condition = ''
        if (callSteps.length > 0) condition = ifOk(callSteps.at(-1) as number)
        else if (scope === 'transaction' && !isUnconditional) condition = guard.next(steps)
        // begins again if the previous statement has ended the transaction
        if (this.#test === -1) addStep(steps, TEST_BEGIN.json, NEVER)
        callSteps.push(addStep(steps, json, condition))
      }
      for (const { json, kind } of prefix) {
        add(json, kind === 'begin')
        if (kind !== 'begin') continue
        guard.recordBegin?.(callSteps.at(-1) as number)
        // a schema database would run the request as a migration, unless it has a second BEGIN
        if (scope === 'transaction' && guard.tested) addStep(steps, TEST_BEGIN.json, NEVER)
      }
      if (parsedOnly !== undefined && guard.tested)
        this.#parsed = addStep(steps, JSON.stringify({ sql: parsedOnly }), NEVER)
      for (const { json } of statements) add(json)
      if (scope === 'atomic') {
        this.#endTest(steps)
        add(COMMIT.json)
        addStep(steps, ROLLBACK.json, ifNot(ifOk(callSteps.at(-1) as number)))
      }
      if (transactionEnd === 'commit') this.#lossProof = guard.proveLoss(steps, callSteps)
      return callSteps
    })
    this.#endTest(steps)
    if (this.calls[0]?.scope === 'transaction') guard.end?.(steps)
    this.#length = steps.length
    return steps
  }

  /**
   * Starts the test whether the server evaluates conditions. If it does not, it runs everything in a transaction that the ROLLBACK
   * of the test undoes.
   */
  #startTest(steps: string[], { tested }: Guard): void {
    const [{ cursor, scope, statements, transactionEnd }] = this.calls as [QueuedCall]
    const begins =
      scope === 'transaction' ? this.isFirst || cursor : scope === 'atomic' || statements.length > 1
    this.#test = begins && tested === 'begin' ? -1 : null
    if (tested && transactionEnd === 'commit') this.#test = addStep(steps, ROLLBACK.json, NEVER)
  }

  #endTest(steps: string[]): void {
    if (this.#test === -1) this.#test = addStep(steps, ROLLBACK.json, NEVER)
  }

  /** Whether the result of a step shows that the server ignores conditions. */
  isTest(step: number): boolean {
    return this.#test !== null && step === 0
  }

  /** Checks that the server skipped the steps that it had to skip. @throws ProtocolError */
  #checkConditions({ step_results: results, step_errors: errors }: WireBatchResult): void {
    if (this.#parsed !== null && results[this.#parsed]) throw ignoredConditionsError('not_applied')
    if (this.#test === null) return
    const rollback = results[this.#test]
    // after this error, libsql-server reports it for every step
    const hasFailed = errors[0] && errors[0].code !== 'TRANSACTION_TIMEOUT'
    if (!results[0] && !rollback && !hasFailed) return
    const [{ scope, transactionEnd }] = this.calls as [QueuedCall]
    const hasCommitted = (scope === 'atomic' || transactionEnd) && results[this.#steps[0]?.at(-1) as number]
    throw ignoredConditionsError(this.isReadOnly || (rollback && !hasCommitted) ? 'not_applied' : 'unknown')
  }

  /** Settles the calls with their results. @throws ProtocolError if the response does not show what was executed */
  settle(result: WireStreamResult | undefined, context: SettleContext): SettleResult {
    const [firstCall] = this.calls as [QueuedCall]
    try {
      if (result?.type === 'error') return this.#handleError(result.error, context)
      if (firstCall.scope === 'autocommit')
        settle(firstCall, () => [decode(result?.response.result as WireResult, firstCall, 0, context)])
      else {
        const batch = decodeBatch(result?.response.result, this.#length)
        this.#checkConditions(batch)
        this.#checkCommit(batch)
        for (const [index, callSteps] of this.#steps.entries()) {
          const call = this.calls[index] as QueuedCall
          settle(call, () => readSteps(callSteps, call, batch, context))
        }
      }
      return { evaluatesConditions: this.#test !== null }
    } catch (error) {
      throw ProtocolError.of(error)
    }
  }

  /** Checks the result of a COMMIT. @throws ProtocolError if the response does not prove whether it took effect */
  #checkCommit({ step_results: results, step_errors: errors }: WireBatchResult): void {
    const [{ scope, transactionEnd }] = this.calls as [QueuedCall]
    const isAtomic = scope === 'atomic'
    if (!isAtomic && transactionEnd !== 'commit') return
    const callSteps = this.#steps[0] ?? []
    const commit = callSteps.at(-1) as number
    const rejected = errors[commit] && new SqlError(errors[commit], COMMIT.sql)
    if (rejected?.outcome === 'unknown') throw unclearCommitError(rejected)
    // the ROLLBACK of an atomic batch runs unless the COMMIT succeeded
    const proof = isAtomic ? commit + 1 : this.#lossProof
    const isProven = results[proof] !== null || (isAtomic && errors[proof] !== null)
    const isClear =
      results[commit] !== null
        ? !isProven && callSteps.every((step) => results[step] !== null)
        : isProven || (!isAtomic && callSteps.some((step) => errors[step] !== null))
    if (!isClear) throw unclearCommitError()
  }

  /** Returns the position, in the first call, of the step that made a migration fail; -1 for another error. */
  #findMigrationStep(message: string): number {
    const step = Number(/ the migration at step (\d+)/.exec(message)?.[1]) - 1
    return this.#steps[0]?.indexOf(step) ?? -1
  }

  /** Handles an error of the whole operation. */
  #handleError(wireError: WireError, { markLost, rowids }: SettleContext): SettleResult {
    if (!isWireError(wireError)) throw new ProtocolError('the response has an error without a message')
    const [firstCall, ...others] = this.calls as [QueuedCall, ...QueuedCall[]]
    const { statements, parsedOnly, prefix, scope } = firstCall
    const index = this.#findMigrationStep(wireError.message) - prefix.length
    const sql = parsedOnly ?? (statements[index] ?? (statements.length === 1 ? statements[0] : null))?.sql
    const outcome = this.isReadOnly ? 'not_applied' : undefined
    const error = new SqlError(wireError, sql, statements[index] ? index : null, [], outcome)
    // COMMIT is valid SQL, so an error of the whole operation does not come from the server
    if (firstCall.transactionEnd === 'commit') throw unclearCommitError(error)
    // statements that the server's parser rejects have not run, nor has a migration that failed
    const isMigration = error.code === 'SCHEMA_MIGRATION_ERROR'
    const ranNothing = isMigration ? error.outcome === 'not_applied' : /^(SQL|ARGS)_/.test(error.code)
    // a schema database rejects the test; it evaluates conditions
    if (isMigration && ranNothing && this.#test !== null)
      return { retry: this.calls, ranNothing, evaluatesConditions: true }
    if (!ranNothing) rowids.forget()
    // After other errors, such as a response that is too large, the server does not report what ran. Only two things are certain:
    // reads changed nothing, and the control statements of the first call ran, since they have no rows.
    const isHarmless = ranNothing || (this.isReadOnly && others.every((other) => other.prefix.length === 0))
    if (isHarmless && others.length > 0) {
      // one call made the whole request fail: each is sent alone
      for (const call of this.calls) call.canCoalesce = false
      if (!ranNothing) firstCall.prefix = []
      return { retry: this.calls, ranNothing }
    }
    const message = 'the server did not report what was executed'
    const lossError = scope === 'transaction' && !isHarmless && markLost?.('TRANSACTION_LOST', message, error)
    for (const call of this.calls) call.reject(lossError || error)
    // COMMIT and ROLLBACK may not have run: later statements would join the batch's transaction
    if (scope === 'atomic' && !ranNothing) markLost?.('STREAM_LOST', message, error)
    return ranNothing && scope === 'transaction' ? { prefix, ranNothing } : {}
  }
}

/** Fails inside a transaction, where it changes nothing. */
const TEST_BEGIN = beginStatement('deferred')

const unclearCommitError = (cause?: SqlError): ProtocolError =>
  new ProtocolError('the response does not show whether the COMMIT took effect', cause && { cause })

function settle(call: QueuedCall, read: () => Results): void {
  try {
    call.resolve(read())
  } catch (error) {
    const reason = ProtocolError.of(error)
    if (reason instanceof RangeError && !call.isReadOnly) {
      reason.message += '; the statement has run'
      Object.assign(reason, { outcome: 'unknown' })
    }
    call.reject(call.isReadOnly ? asNotApplied(reason) : reason)
  }
}

function decode(
  result: WireResult,
  { statements, options }: QueuedCall,
  index: number,
  { intMode, rowids }: SettleContext,
): Results[number] {
  const rowid = rowids.read(result, statements[index] as EncodedStatement)
  options.onResult?.(result)
  return decodeResult(result, intMode, options.rowMode, rowid)
}

/**
 * Reads the results of a call.
 * @throws SqlError with the earlier results, for the first failed step; StreamError if the transaction was lost
 */
function readSteps(
  callSteps: readonly number[],
  call: QueuedCall,
  batch: WireBatchResult,
  context: SettleContext,
): Results {
  const { prefix, statements, scope, transactionEnd } = call
  if (context.markLost && scope === 'transaction') checkTransaction(callSteps, call, batch, context.markLost)
  const isAtomic = scope === 'atomic'
  const isBatch = scope !== 'transaction' || statements.length > 1
  const results: Results = []
  for (let position = 0; position < callSteps.length; position++) {
    const step = callSteps[position] as number
    const index = position - prefix.length
    const statement = statements[index]
    const error = batch.step_errors[step]
    if (error) {
      context.rowids.forget()
      const sql = (statement ?? prefix[position])?.sql
      const isUnchanged = statements.slice(0, results.length).every(({ kind }) => kind === 'read')
      // an atomic batch was rolled back, and reads change nothing; otherwise, the changes of earlier statements may remain
      const outcome = isAtomic || call.isReadOnly ? 'not_applied' : isUnchanged ? undefined : 'unknown'
      throw new SqlError(error, sql, statement && isBatch ? index : null, results, outcome)
    }
    const result = batch.step_results[step]
    if (!result) throw new ProtocolError('the response omits a step')
    if (statement && !transactionEnd) results.push(decode(result, call, index, context))
  }
  return results
}

/** Checks that a transaction still existed. @throws its error if it was lost; SqlError if it was not begun */
function checkTransaction(
  callSteps: readonly number[],
  { prefix }: QueuedCall,
  batch: WireBatchResult,
  markLost: MarkLost,
): void {
  for (let index = 0; index <= prefix.length; index++) {
    const step = callSteps[index] as number
    const rejected = batch.step_errors[step]
    if (rejected) {
      const sql = prefix[index]?.sql
      const cause = new SqlError(rejected, sql)
      if (cause.code === 'TRANSACTION_TIMEOUT') throw writeLockTakenOver(cause, markLost)
      if (index < prefix.length) {
        markLost('TRANSACTION_LOST', `${sql} failed`, cause)
        throw cause
      }
    } else if (!batch.step_results[step]) {
      // skipped by its condition
      throw markLost('TRANSACTION_LOST', 'the server had ended the transaction')
    }
  }
}

/** Declares a transaction lost because it exceeded its time while another writer waited. */
export const writeLockTakenOver = (cause: SqlError, markLost: MarkLost): StreamError =>
  markLost(
    'TRANSACTION_EXPIRED',
    `another writer took the write lock after ${TRANSACTION_WINDOW_MS / 1_000} s`,
    cause,
  )
