import type { Deadline } from '../base/deadline.ts'
import { ProtocolError, SqlError, type StreamError } from '../base/errors.ts'
import { TRANSACTION_WINDOW_MS } from '../base/limits.ts'
import type { WireBatchResult, WireError, WireResult, WireStreamResult } from '../base/wire.ts'
import {
  addStep,
  decodeBatch,
  ifNot,
  ifOk,
  isWireError,
  TransactionGuard,
  withIndex,
} from '../codec/batch.ts'
import { COMMIT, type ControlStatement, ROLLBACK } from '../codec/control.ts'
import type { InsertedRowids } from '../codec/inserted-rowids.ts'
import { decodeResult } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { IntMode } from '../codec/value.ts'
import { needsWriteLock, type QueuedCall, type Results } from './queued-call.ts'

/** What the answer means for the stream. */
export interface Settled {
  /** Nothing ran: these have to be sent once more. */
  readonly again?: readonly QueuedCall[]
  /** Control statements that have not taken place and still have to. */
  readonly prefix?: readonly ControlStatement[]
  /** Whether nothing of the request has run. */
  readonly ranNothing?: boolean
}

/** What the results are read with. */
export interface SettleContext {
  readonly intMode: IntMode
  readonly rowids: InsertedRowids
  /** Makes the one error of a transaction that turns out to be gone; absent where there can be none. */
  readonly markLost?: MarkLost
}

/** Declares a transaction gone. @returns its error, the first one if there was one before */
export type MarkLost = (code: StreamError['code'], message: string, cause?: unknown) => StreamError

/** The SQL operation of one HTTP request: what it says for its entries, and what they hear. */
export class SqlRequest {
  readonly calls: readonly QueuedCall[]
  /** Whether it does no harm to send it twice, as the first of its stream. */
  readonly isReadOnly: boolean
  /** Whether it takes the write lock, as far as the texts tell. */
  readonly needsWriteLock: boolean
  /** Whether it was written for a request, which may have left and run. */
  isEncoded = false
  /** For each call the numbers of its steps: the prefix's, then the statements', then the COMMIT of an atomic batch. */
  #steps: number[][] = []
  #length = 0
  /** The step that succeeds when a COMMIT found its transaction gone. */
  #lossProof = -1

  constructor(calls: readonly QueuedCall[]) {
    this.calls = calls
    this.isReadOnly = calls.every(({ isReadOnly }) => isReadOnly)
    this.needsWriteLock = calls.some(needsWriteLock)
  }

  /** Writes it as wire JSON. */
  encode(isV3: boolean, index: string | null = null): string {
    this.isEncoded = true
    const [call] = this.calls as [QueuedCall]
    if (call.scope === 'autocommit')
      return `{"type":"execute","stmt":${withIndex(call.statements[0]?.json, index)}}`
    return `{"type":"batch","batch":${this.encodeBatch(isV3, index)}}`
  }

  /** Writes it as the JSON of a batch. */
  encodeBatch(isV3: boolean, index: string | null): string {
    const steps: string[] = []
    const guard = new TransactionGuard(isV3)
    this.#steps = this.calls.map(({ prefix, statements, scope, transactionEnd }) => {
      const own: number[] = []
      // each depends on the one before: the server goes on with the steps of a batch whose client has left
      const condition = (): string => {
        if (own.length > 0) return ifOk(own.at(-1) as number)
        return scope === 'transaction' ? guard.next(steps) : ''
      }
      for (const { json, kind } of prefix) {
        const begins = kind === 'begin'
        own.push(addStep(steps, json, begins && scope === 'transaction' ? '' : condition()))
        if (begins) guard.begun(own.at(-1) as number)
      }
      for (const { json } of statements) own.push(addStep(steps, json, condition()))
      if (scope === 'atomic') {
        own.push(addStep(steps, COMMIT.json, condition()))
        addStep(steps, ROLLBACK.json, ifNot(ifOk(own.at(-1) as number)))
      }
      if (transactionEnd === 'commit') this.#lossProof = guard.proveLoss(steps, own)
      return own
    })
    this.#length = steps.length
    return withIndex(`{"steps":[${steps.join()}]}`, index)
  }

  /** Hands the results out to the calls. @throws ProtocolError when the answer does not tell what was done */
  settle(answer: WireStreamResult | undefined, context: SettleContext): Settled {
    const [call] = this.calls as [QueuedCall]
    try {
      if (answer?.type === 'error') return this.#refused(answer.error, context)
      if (call.scope === 'autocommit')
        settle(call, () => [decode(answer?.response.result as WireResult, call, 0, context)])
      else {
        const batch = decodeBatch(answer?.response.result, this.#length)
        this.#checkCommit(batch)
        for (const [at, own] of this.#steps.entries()) {
          const each = this.calls[at] as QueuedCall
          settle(each, () => readSteps(own, each, batch, context))
        }
      }
      return {}
    } catch (error) {
      throw ProtocolError.of(error)
    }
  }

  /** @throws ProtocolError when the answer does not prove whether a COMMIT took effect */
  #checkCommit({ step_results: results, step_errors: errors }: WireBatchResult): void {
    const [{ scope, transactionEnd }] = this.calls as [QueuedCall]
    const isAtomic = scope === 'atomic'
    if (!isAtomic && transactionEnd !== 'commit') return
    const own = this.#steps[0] ?? []
    const commit = own.at(-1) as number
    const refused = errors[commit] && new SqlError(errors[commit], COMMIT.sql)
    if (refused?.outcome === 'unknown') throw unclearCommit(refused)
    // the ROLLBACK of an atomic batch runs unless the COMMIT succeeded
    const proof = isAtomic ? commit + 1 : this.#lossProof
    const isProven = results[proof] !== null || (isAtomic && errors[proof] !== null)
    const isClear =
      results[commit] !== null
        ? !isProven && own.every((step) => results[step] !== null)
        : isProven || (!isAtomic && own.some((step) => errors[step] !== null))
    if (!isClear) throw unclearCommit()
  }

  /** Refused as a whole. */
  #refused(wireError: WireError, { markLost }: SettleContext): Settled {
    if (!isWireError(wireError)) throw new ProtocolError('an error without a message')
    const [call, ...others] = this.calls as [QueuedCall, ...QueuedCall[]]
    const { statements, prefix, scope } = call
    const sql = statements.length === 1 ? statements[0]?.sql : null
    const error = new SqlError(wireError, sql, null, [], this.isReadOnly ? 'not_applied' : undefined)
    // COMMIT is correct SQL: an answer that refuses it as a whole is not the server's
    if (call.transactionEnd === 'commit') throw unclearCommit(error)
    // what the server's parser refuses has not run
    const ranNothing = /^(SQL|ARGS)_/.test(error.code)
    // Else, as when a response is too large, the server does not say what ran. Only reads are sure to have done nothing, and
    // control statements in front of the first to have run, as they have no rows.
    const isHarmless = ranNothing || (this.isReadOnly && others.every((each) => each.prefix.length === 0))
    if (isHarmless && others.length > 0) {
      // one of them has spoilt it for all: each has to go by itself
      for (const each of this.calls) each.canCoalesce = false
      if (!ranNothing) call.prefix = []
      return { again: this.calls, ranNothing }
    }
    const message = 'the server did not tell what was done'
    const lost = scope === 'transaction' && !isHarmless && markLost?.('TRANSACTION_LOST', message, error)
    for (const each of this.calls) each.reject(lost || error)
    // neither COMMIT nor ROLLBACK need have run: what comes next would be part of the batch's transaction
    if (scope === 'atomic' && !ranNothing) markLost?.('STREAM_LOST', message, error)
    return ranNothing && scope === 'transaction' ? { prefix, ranNothing } : {}
  }

  /** Whether this request fixes the snapshot; in a transaction its first one did. */
  get isFirst(): boolean {
    const [{ scope, prefix }] = this.calls as [QueuedCall]
    return scope !== 'transaction' || prefix[0]?.kind === 'begin'
  }

  get lastSql(): string | undefined {
    return this.calls.at(-1)?.statements.at(-1)?.sql
  }

  /** The deadline that is over first, of the calls that share the request. */
  get deadline(): Deadline {
    return this.calls.reduce((a, b) => (b.deadline.endsAt < a.deadline.endsAt ? b : a)).deadline
  }

  get signals(): readonly AbortSignal[] {
    return this.calls.flatMap(({ options }) => options.signal ?? [])
  }
}

const unclearCommit = (cause?: SqlError): ProtocolError =>
  new ProtocolError('the answer does not say whether the COMMIT took effect', cause && { cause })

function settle(call: QueuedCall, read: () => Results): void {
  try {
    call.resolve(read())
  } catch (error) {
    const reason = ProtocolError.of(error)
    if (reason instanceof RangeError && !call.isReadOnly) {
      reason.message += '; the statement has run'
      Object.assign(reason, { outcome: 'unknown' })
    }
    call.reject(reason)
  }
}

function decode(
  result: WireResult,
  { statements, options }: QueuedCall,
  at: number,
  { intMode, rowids }: SettleContext,
): Results[number] {
  const rowid = rowids.read(result, statements[at] as EncodedStatement)
  return decodeResult(result, intMode, options.rowMode, rowid)
}

/** @throws SqlError with the results before it, for the first step that failed; the error of a transaction that was lost */
function readSteps(
  own: readonly number[],
  call: QueuedCall,
  batch: WireBatchResult,
  context: SettleContext,
): Results {
  const { prefix, statements, scope, transactionEnd } = call
  if (context.markLost && scope === 'transaction') checkTransaction(own, call, batch, context.markLost)
  const isAtomic = scope === 'atomic'
  const isBatch = isAtomic || statements.length > 1
  const results: Results = []
  for (let at = 0; at < own.length; at++) {
    const step = own[at] as number
    const index = at - prefix.length
    const statement = statements[index]
    const error = batch.step_errors[step]
    if (error) {
      const sql = (statement ?? prefix[at])?.sql
      const isUnchanged = statements.slice(0, results.length).every(({ kind }) => kind === 'read')
      // it was rolled back, or there is nothing that it could keep; or the statements before it stay
      const outcome = isAtomic || call.isReadOnly ? 'not_applied' : isUnchanged ? undefined : 'unknown'
      throw new SqlError(error, sql, statement && isBatch ? index : null, results, outcome)
    }
    const result = batch.step_results[step]
    if (!result) throw new ProtocolError('a step of the batch was left out')
    if (statement && !transactionEnd) results.push(decode(result, call, index, context))
  }
  return results
}

/** @throws the error of the transaction when it is gone; SqlError when it did not come about */
function checkTransaction(
  own: readonly number[],
  { prefix }: QueuedCall,
  batch: WireBatchResult,
  markLost: MarkLost,
): void {
  for (let at = 0; at <= prefix.length; at++) {
    const step = own[at] as number
    const refused = batch.step_errors[step]
    if (refused) {
      const sql = prefix[at]?.sql
      const cause = new SqlError(refused, sql)
      if (cause.code === 'TRANSACTION_TIMEOUT') throw writeLockTakenOver(cause, markLost)
      if (at < prefix.length) {
        markLost('TRANSACTION_LOST', `${sql} failed`, cause)
        throw cause
      }
    } else if (!batch.step_results[step]) {
      // neither done nor refused: the guard held it back
      throw markLost('TRANSACTION_LOST', 'the server had ended the transaction')
    }
  }
}

/** The error of a transaction whose time was over while another writer waited. */
export const writeLockTakenOver = (cause: SqlError, markLost: MarkLost): StreamError =>
  markLost(
    'TRANSACTION_EXPIRED',
    `another writer took the write lock after ${TRANSACTION_WINDOW_MS / 1_000} s`,
    cause,
  )
