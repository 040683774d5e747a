import {
  asNotApplied,
  copyError,
  ProtocolError,
  SqlError,
  type StreamError,
  toProtocolError,
} from '../base/errors.ts'
import { TRANSACTION_WINDOW_MS } from '../base/limits.ts'
import type { WireBatchResult, WireError, WireResult, WireStreamResult } from '../base/wire.ts'
import { addStep, decodeBatch, ifNot, ifOk, isWireError, NEVER, withIndex } from '../codec/batch.ts'
import {
  BEGIN_CONCURRENT,
  beginStatement,
  COMMIT,
  CONCURRENT_REJECTED,
  type ControlStatement,
  ROLLBACK,
} from '../codec/control.ts'
import { type Guard, ignoredConditionsError } from '../codec/guard.ts'
import type { InsertedRowids } from '../codec/inserted-rowids.ts'
import { decodeResult } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { IntMode } from '../codec/value.ts'
import { endsTransaction, needsWriteLock, type QueuedCall, type Results } from './queued-call.ts'

/** What became of a call: its results, or its error, or the loss of its transaction. */
export interface CallOutcome {
  readonly results?: Results
  readonly error?: unknown
  readonly loss?: Loss
}

/** What a response shows. */
export interface Settlement {
  /**
   * The outcomes of the calls; absent if each call must be sent again on its own: at most the control statements of the first one
   * have run.
   */
  readonly outcomes?: readonly CallOutcome[]
  /** The loss of the stream, after the calls were settled. */
  readonly loss?: Loss | undefined
  /** Control statements that did not run and must be sent again. */
  readonly prefix?: readonly ControlStatement[]
  /** Whether no part of the request was executed. */
  readonly ranNothing?: boolean
  /** Whether the response shows that the server evaluates conditions. */
  readonly evaluatesConditions?: boolean
}

/** Why a stream and its transaction are lost. */
export interface Loss {
  readonly code: StreamError['code']
  readonly message: string
  readonly cause?: unknown
}

export interface ReadContext {
  readonly intMode: IntMode
  readonly rowids: InsertedRowids
}

/**
 * The test whether the server evaluates conditions, made of steps that it must skip:
 * - `begin`: a BEGIN before each statement, and a ROLLBACK at the end. A server that ignores conditions runs the statements in a
 *   transaction that the ROLLBACK undoes;
 * - `commit`: a ROLLBACK before the COMMIT.
 */
type ConditionTest = 'begin' | 'commit'

/** Encodes the SQL operation of one request, and reads the outcomes of its calls from the response. */
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
  /** The numbers of the steps of each call: its prefix, its statements, and the COMMIT of an atomic batch. */
  #steps: number[][] = []
  #length = 0
  /** The step that succeeds if the transaction of a COMMIT no longer exists. */
  #lossProof = -1
  #test: ConditionTest | null = null
  /** The ROLLBACK of the test; null until it is added. */
  #testRollback: number | null = null
  /** The step with the SQL that the server only parses; null without one. */
  #parsed: number | null = null

  constructor(calls: readonly QueuedCall[]) {
    const [{ scope, prefix }] = calls as [QueuedCall]
    this.calls = calls
    this.isFirst = scope !== 'transaction' || prefix[0]?.kind === 'begin'
    this.isReadOnly = calls.every(({ isReadOnly }) => isReadOnly)
    this.needsWriteLock = calls.some(needsWriteLock)
  }

  /** Encodes the operation as wire JSON. */
  encode(guard: Guard, index: string | null): string {
    this.isEncoded = true
    const [call] = this.calls as [QueuedCall]
    if (call.scope === 'autocommit')
      return `{"type":"execute","stmt":${withIndex(call.statements[0]?.json, index)}}`
    return `{"type":"batch","batch":${this.encodeBatch(guard, index)}}`
  }

  encodeBatch(guard: Guard, index: string | null): string {
    return withIndex(`{"steps":[${this.encodeSteps(guard).join()}]}`, index)
  }

  /**
   * Encodes the steps of a batch. The first request of a transaction on a server that has not shown that it evaluates conditions:
   *
   *     0 BEGIN            never      the test
   *     1 BEGIN IMMEDIATE             the prefix of the call
   *     2 BEGIN            never      rejected by a schema database
   *     3 BEGIN            never      the test
   *     4 INSERT …         if 1 succeeded
   *     5 ROLLBACK         never      the test
   *
   * A request with the COMMIT:
   *
   *     0 ROLLBACK         never      the test
   *     1 COMMIT           if a transaction is open
   *     2 SELECT 1         if none is open, and 1 did not succeed: proves that the server had ended the transaction
   */
  encodeSteps(guard: Guard): string[] {
    const steps: string[] = []
    this.#parsed = null
    this.#startTest(steps, guard)
    this.#steps = this.calls.map((call) => {
      const { prefix, scope, statements } = call
      const callSteps: number[] = []
      // each step depends on the previous one: the server continues a batch whose client has disconnected
      const add = (json: string, isUnconditional = false): void => {
        let condition = ''
        if (callSteps.length > 0) condition = ifOk(callSteps.at(-1) as number)
        else if (scope === 'transaction' && !isUnconditional) condition = guard.next(steps)
        // begins again if the previous statement has ended the transaction; only on a server that ignores conditions
        if (this.#needsTestRollback) addStep(steps, TEST_BEGIN.json, NEVER)
        callSteps.push(addStep(steps, json, condition))
      }
      for (const { json, kind } of prefix) {
        add(json, kind === 'begin')
        if (kind !== 'begin') continue
        guard.recordBegin?.(callSteps.at(-1) as number)
        // a schema database would run the request as a migration, unless it has a second BEGIN (docs/decisions/0001)
        if (scope === 'transaction' && guard.tested) addStep(steps, TEST_BEGIN.json, NEVER)
      }
      if (call.kind === 'parse' && guard.tested)
        this.#parsed = addStep(steps, JSON.stringify({ sql: call.cursorCall.statements[0].sql }), NEVER)
      for (const { json } of statements) add(json)
      if (scope === 'atomic') {
        this.#endTest(steps)
        add(COMMIT.json)
        addStep(steps, ROLLBACK.json, ifNot(ifOk(callSteps.at(-1) as number)))
      }
      if (call.kind === 'commit') this.#lossProof = guard.proveLoss(steps, callSteps)
      return callSteps
    })
    this.#endTest(steps)
    if (this.calls[0]?.scope === 'transaction') guard.end?.(steps)
    this.#length = steps.length
    return steps
  }

  /** Starts the test whether the server evaluates conditions, if this request needs one. */
  #startTest(steps: string[], { tested }: Guard): void {
    const [{ kind, scope, statements }] = this.calls as [QueuedCall]
    const isBatch = scope === 'atomic' || statements.length > 1
    const begins = scope === 'transaction' ? this.isFirst || kind === 'cursor' : isBatch
    this.#test = begins && tested === 'begin' ? 'begin' : null
    this.#testRollback = null
    if (!tested || kind !== 'commit') return
    this.#test = 'commit'
    this.#testRollback = addStep(steps, ROLLBACK.json, NEVER)
  }

  get #needsTestRollback(): boolean {
    return this.#test === 'begin' && this.#testRollback === null
  }

  #endTest(steps: string[]): void {
    if (this.#needsTestRollback) this.#testRollback = addStep(steps, ROLLBACK.json, NEVER)
  }

  /** Whether the result of a step shows that the server ignores conditions. */
  isTest(step: number): boolean {
    return this.#test !== null && step === 0
  }

  /** Checks that the server skipped the steps that it had to skip. @throws ProtocolError */
  #checkConditions({ step_results: results, step_errors: errors }: WireBatchResult): void {
    if (this.#parsed !== null && results[this.#parsed]) throw ignoredConditionsError('not_applied')
    if (this.#test === null) return
    const rollback = results[this.#testRollback as number]
    // after this error, libsql-server reports it for every step
    const hasFailed = errors[0] && errors[0].code !== 'TRANSACTION_TIMEOUT'
    if (!results[0] && !rollback && !hasFailed) return
    const [{ kind, scope }] = this.calls as [QueuedCall]
    // the ROLLBACK has undone everything, unless a COMMIT before it ran, too
    const isCommitted = (scope === 'atomic' || kind === 'commit') && results[this.#steps[0]?.at(-1) as number]
    throw ignoredConditionsError(this.isReadOnly || (rollback && !isCommitted) ? 'not_applied' : 'unknown')
  }

  /** Reads the response. @throws ProtocolError if it does not show what was executed */
  read(result: WireStreamResult | undefined, context: ReadContext): Settlement {
    const [firstCall] = this.calls as [QueuedCall]
    try {
      if (result?.type === 'error') return this.#readError(result.error, context)
      const evaluatesConditions = this.#test !== null
      if (firstCall.scope === 'autocommit') {
        const read = (): CallOutcome => ({
          results: [decode(result?.response.result as WireResult, firstCall, 0, context)],
        })
        return { outcomes: [readOutcome(firstCall, read)], evaluatesConditions }
      }
      const batch = decodeBatch(result?.response.result, this.#length)
      this.#checkConditions(batch)
      this.#checkCommit(batch)
      const outcomes = this.#steps.map((callSteps, index) => {
        const call = this.calls[index] as QueuedCall
        return readOutcome(call, () => readSteps(callSteps, call, batch, context))
      })
      return { outcomes, evaluatesConditions }
    } catch (error) {
      throw toProtocolError(error)
    }
  }

  /** Checks the result of a COMMIT. @throws ProtocolError if the response does not prove whether it took effect */
  #checkCommit({ step_results: results, step_errors: errors }: WireBatchResult): void {
    const [{ kind, scope }] = this.calls as [QueuedCall]
    const isAtomic = scope === 'atomic'
    if (!isAtomic && kind !== 'commit') return
    const callSteps = this.#steps[0] ?? []
    const commit = callSteps.at(-1) as number
    const rejected = errors[commit] && new SqlError(errors[commit], COMMIT.sql)
    if (rejected?.outcome === 'unknown') throw unclearCommitError(rejected)
    // the ROLLBACK of an atomic batch runs unless the COMMIT succeeded
    const proof = isAtomic ? commit + 1 : this.#lossProof
    const isUndone = results[proof] !== null || (isAtomic && errors[proof] !== null)
    const ranAll = callSteps.every((step) => results[step] !== null)
    const hasFailed = !isAtomic && callSteps.some((step) => errors[step] !== null)
    const isClear = results[commit] !== null ? ranAll && !isUndone : isUndone || hasFailed
    if (!isClear) throw unclearCommitError()
  }

  /** Returns the position, in the first call, of the step that made a migration fail; -1 for another error. */
  #findMigrationStep(message: string): number {
    const step = Number(/ the migration at step (\d+)/.exec(message)?.[1]) - 1
    return this.#steps[0]?.indexOf(step) ?? -1
  }

  /** Reads an error of the whole operation. */
  #readError(wireError: WireError, { rowids }: ReadContext): Settlement {
    if (!isWireError(wireError)) throw new ProtocolError('the response has an error without a message')
    const [firstCall, ...others] = this.calls as [QueuedCall, ...QueuedCall[]]
    const { statements, prefix, scope } = firstCall
    const index = this.#findMigrationStep(wireError.message) - prefix.length
    const { statements: written } = firstCall.kind === 'parse' ? firstCall.cursorCall : firstCall
    const failed = written[written.length === 1 ? 0 : index]
    const isFromBegin = wireError.message.startsWith(CONCURRENT_REJECTED)
    const sql = isFromBegin ? BEGIN_CONCURRENT.sql : failed?.sql
    const outcome = this.isReadOnly ? 'not_applied' : undefined
    const error = new SqlError(wireError, sql, statements[index] ? index : null, [], outcome)
    // COMMIT is valid SQL, so an error of the whole operation does not come from the server
    if (firstCall.kind === 'commit') throw unclearCommitError(error)
    // statements that the server's parser rejects have not run, nor has a migration that failed
    const isMigration = error.code === 'SCHEMA_MIGRATION_ERROR'
    const ranNothing = isMigration ? error.outcome === 'not_applied' : /^(SQL|ARGS)_/.test(error.code)
    // a schema database rejects the test; it evaluates conditions
    if (isMigration && ranNothing && this.#test !== null) return { ranNothing, evaluatesConditions: true }
    if (!ranNothing) rowids.forget()
    // After other errors, such as a response that is too large, the server does not report what ran. Only two things are certain:
    // reads changed nothing, and the control statements of the first call ran, since they have no rows.
    const isHarmless = ranNothing || (this.isReadOnly && others.every((other) => other.prefix.length === 0))
    // one call made the whole request fail
    if (isHarmless && others.length > 0) return { ranNothing }
    const loss: Loss = {
      code: scope === 'transaction' ? 'TRANSACTION_LOST' : 'STREAM_LOST',
      message: 'the server did not report what was executed',
      cause: error,
    }
    const isLost = scope === 'transaction' && !isHarmless
    const outcomes = this.calls.map(() => (isLost ? { loss } : { error }))
    if (scope === 'transaction') return ranNothing ? { outcomes, prefix, ranNothing } : { outcomes }
    // COMMIT and ROLLBACK may not have run: later statements would join the transaction of the batch or of the test
    const mayBeOpen = !ranNothing && (scope === 'atomic' || this.#test !== null)
    return { outcomes, loss: mayBeOpen ? loss : undefined }
  }
}

/** Fails inside a transaction, where it changes nothing. */
export const TEST_BEGIN = beginStatement('deferred')

const unclearCommitError = (cause?: SqlError): ProtocolError =>
  new ProtocolError('the response does not show whether the COMMIT took effect', cause && { cause })

/** Returns the outcome of a call, or the error that reading it throws. */
function readOutcome(call: QueuedCall, read: () => CallOutcome): CallOutcome {
  try {
    return read()
  } catch (error) {
    const reason = toProtocolError(error)
    return { error: call.isReadOnly ? asNotApplied(reason) : asErrorOfWrite(reason) }
  }
}

/** Adds to the error of a value in the result of a write that the write has run. */
export const asErrorOfWrite = (reason: unknown): unknown =>
  reason instanceof RangeError
    ? copyError(reason, { message: `${reason.message}; the statement has run`, outcome: 'unknown' })
    : reason

function decode(
  result: WireResult,
  { statements, options }: QueuedCall,
  index: number,
  { intMode, rowids }: ReadContext,
): Results[number] {
  const rowid = rowids.read(result, statements[index] as EncodedStatement)
  options.onResult?.(result)
  return decodeResult(result, intMode, options.rowMode, rowid)
}

/** Reads the outcome of a call. @throws SqlError with the earlier results, for the first failed step */
function readSteps(
  callSteps: readonly number[],
  call: QueuedCall,
  batch: WireBatchResult,
  context: ReadContext,
): CallOutcome {
  const { prefix, statements, scope } = call
  const lost = scope === 'transaction' && findLoss(callSteps, call, batch)
  if (lost) return lost
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
    if (statement && !endsTransaction(call)) results.push(decode(result, call, index, context))
  }
  return { results }
}

/** Returns the loss of a call's transaction, or the error of a control statement; null if the transaction still existed. */
function findLoss(
  callSteps: readonly number[],
  { prefix }: QueuedCall,
  batch: WireBatchResult,
): CallOutcome | null {
  for (let index = 0; index <= prefix.length; index++) {
    const step = callSteps[index] as number
    const rejected = batch.step_errors[step]
    if (!rejected) {
      const wasSkipped = !batch.step_results[step]
      if (wasSkipped) return { loss: ENDED_BY_SERVER }
      continue
    }
    const sql = prefix[index]?.sql
    const cause = new SqlError(rejected, sql)
    if (cause.code === 'TRANSACTION_TIMEOUT') return { loss: takeoverLoss(cause) }
    if (index < prefix.length)
      return { error: cause, loss: { code: 'TRANSACTION_LOST', message: `${sql} failed`, cause } }
  }
  return null
}

/** The loss of a transaction that no longer exists. */
export const ENDED_BY_SERVER: Loss = {
  code: 'TRANSACTION_LOST',
  message: 'the server had ended the transaction',
}

/** Returns the loss of a transaction that exceeded its time while another writer waited. */
export const takeoverLoss = (cause: SqlError): Loss => ({
  code: 'TRANSACTION_EXPIRED',
  message: `another writer took the write lock after ${TRANSACTION_WINDOW_MS / 1_000} s`,
  cause,
})
