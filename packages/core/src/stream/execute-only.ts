import type { Deadline } from '../base/deadline.ts'
import { HttpError, ProtocolError, SqlError, withOutcome } from '../base/errors.ts'
import { TRANSACTION_WINDOW_MS } from '../base/limits.ts'
import type { WireBatchResult, WireError, WireResult, WireStreamResult } from '../base/wire.ts'
import { addStep, isWireError, withIndex } from '../codec/batch.ts'
import { COMMIT, type ControlStatement, PROBE, ROLLBACK } from '../codec/control.ts'
import type { Guard } from '../codec/guard.ts'
import { CLOSE, decodePipeline, pipelineBody } from '../codec/pipeline.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import { V2Guard } from '../codec/v2-guard.ts'
import type { Http } from '../http/http.ts'
import { type NoResponse, notSent, type RequestOptions, type SendResult } from '../http/message.ts'
import { READ } from '../http/policies.ts'
import type { EndCall, QueuedCall } from '../request/queued-call.ts'
import { type SqlRequest, TEST_BEGIN } from '../request/sql-request.ts'
import type { ExecuteOnlyState, StreamState } from './stream-state.ts'

// Batches and transactions on a server that supports only `execute` and `close`. Such a server cannot skip a statement when the
// previous one fails: if it has lost the transaction, it runs the next statement outside of it. So a statement is sent alone, or
// after a BEGIN that fails inside a transaction. If that BEGIN succeeds, the transaction was lost, and later statements belong to
// a new one, which is rolled back. Statements share a request only if those after a failed one can do no harm.

const IN_TRANSACTION = /within a transaction/
const NO_TRANSACTION = /no transaction is active/

/** Lays out the steps of a request; their conditions are not used. */
const LAYOUT: Guard = {
  next: () => '',
  proveLoss: (steps) => addStep(steps, PROBE.json),
}

export type StreamResults = readonly (WireStreamResult | undefined)[]

/** Encodes the operations of a request. @param index replication index, if the request carries one */
export type Encode = (index: string | null) => readonly string[]

/** A request, and how it is sent. */
export interface Sending {
  readonly request: SqlRequest
  /** Whether it also closes the stream. */
  readonly closes: boolean
  /** Whether the stream holds the write lock or the request may acquire it. */
  readonly mayHoldLock: boolean
  /** The earliest deadline of its calls. */
  readonly deadline: Deadline
  /** Aborted when one of its calls is. */
  readonly signal: AbortSignal | undefined
}

/** Sends the requests of one stream. */
export interface SendingStream {
  readonly http: Http
  readonly state: Pick<StreamState, 'baton' | 'executeOnly'>
  /** Sends operations on the stream. @param encode encodes them; by default, they are the request's own */
  post(sending: Sending, encode?: Encode): Promise<SendResult<StreamResults>>
}

/** Detects whether the server rejects every batch, but supports `execute`. @returns the failure of a request; otherwise null */
async function detectExecuteOnly(
  http: Http,
  options: Pick<RequestOptions, 'deadline' | 'signal'>,
): Promise<SendResult<never> | null> {
  const probe = (operation: string): Promise<SendResult<StreamResults>> =>
    http.exchange(
      '/v2/pipeline',
      () => pipelineBody([operation, CLOSE]),
      { ...options, limiter: null, policy: READ },
      (text) => decodePipeline(text).results,
    )
  const isRejected = (response: SendResult<StreamResults>): boolean =>
    !response.isOk && response.error instanceof HttpError && response.error.status === 400
  const batch = await probe(`{"type":"batch","batch":{"steps":[{"stmt":${PROBE.json}}]}}`)
  if (batch.isOk && batch.value[0]?.type === 'ok' && batch.value[0].response?.type === 'batch')
    http.server.isExecuteOnly = false
  if (!isRejected(batch)) return batch.isOk ? null : notSent(batch.error)
  const execute = await probe(`{"type":"execute","stmt":${PROBE.json}}`)
  if (!execute.isOk) return isRejected(execute) ? null : notSent(execute.error)
  http.server.isExecuteOnly = true
  // the statements are sent to `/v2`, where this was detected
  http.server.V2Guard = V2Guard
  return null
}

/**
 * Sends a request as single statements and returns the response that the server would have sent to its batch.
 * @param batchResponse the response to the batch; null if the server is known not to support batches
 */
export async function sendExecutes(
  stream: SendingStream,
  sending: Sending,
  batchResponse: SendResult<StreamResults> | null,
): Promise<SendResult<StreamResults>> {
  const { http, state } = stream
  const { deadline, request, signal } = sending
  if (batchResponse) {
    const failure = await detectExecuteOnly(http, { deadline, signal })
    // unless the server is execute-only, it rejected the batch for another reason, such as an invalid baton
    if (failure || !http.server.isExecuteOnly) return (state.baton === null && failure) || batchResponse
  }
  const execution = new Execution(stream, sending)
  try {
    for (const [index, call] of request.calls.entries())
      await execution.run(call, sending.closes && index === request.calls.length - 1)
  } catch (error) {
    if (execution.failure === null) throw error
    return execution.failure
  }
  return { isOk: true, value: [{ type: 'ok', response: { type: 'batch', result: execution.result } }] }
}

/** Executes the calls of one request in order. Its methods throw if a request gets no usable response. */
class Execution {
  /** The request without a usable response, whose error was thrown. */
  failure: NoResponse<StreamResults> | null = null
  readonly #stream: SendingStream
  readonly #sending: Sending
  readonly #state: ExecuteOnlyState
  readonly #results: (WireResult | null)[]
  readonly #errors: (WireError | null)[]
  #nextStep = 0
  #isFirst = true
  #isLost = false

  constructor(stream: SendingStream, sending: Sending) {
    this.#stream = stream
    this.#sending = sending
    this.#state = stream.state.executeOnly ??= { isUnproven: false, isLost: false, begunAt: 0 }
    this.#results = sending.request.encodeSteps(LAYOUT).map(() => null)
    this.#errors = this.#results.map(() => null)
  }

  get result(): WireBatchResult {
    return { step_results: this.#results, step_errors: this.#errors }
  }

  /** Executes a call, unless the transaction was lost. @param closes whether its last request closes the stream */
  async run(call: QueuedCall, closes: boolean): Promise<void> {
    const { kind, prefix, scope, statements } = call
    const commands = [...prefix, ...statements]
    const first = this.#nextStep
    this.#nextStep += commands.length + (scope === 'atomic' ? 2 : kind === 'commit' ? 1 : 0)
    if (scope === 'chain') return await this.#executeEach(commands, first, closes, call)
    if (scope === 'atomic') {
      await this.#execute(call, commands, first, false)
      return await this.#endAtomic(first, commands.length, closes)
    }
    if (prefix.some(({ kind }) => kind === 'begin')) {
      // they describe the previous transaction of the stream
      this.#state.isUnproven = false
      this.#state.isLost = false
    }
    this.#isLost ||= this.#state.isLost
    if (!this.#isLost && this.#state.isUnproven) await this.#proveTransaction()
    if (call.kind === 'commit') await this.#commit(call, first, closes)
    else if (!this.#isLost) await this.#execute(call, commands, first, closes)
  }

  /** Sends a COMMIT after the results of the control statements before it. */
  async #commit(call: EndCall, first: number, closes: boolean): Promise<void> {
    const { prefix } = call
    const commit = first + prefix.length
    if (!this.#isLost && prefix.length > 0)
      await this.#execute({ ...call, statements: [] }, prefix, first, false)
    if (!this.#isLost && this.#hasFailed(first, prefix.length)) return
    if (!this.#isLost) await this.#executeEach([COMMIT], commit, closes)
    if (!this.#isLost && !NO_TRANSACTION.test(this.#errors[commit]?.message ?? '')) return
    // reports the loss: this step succeeds only if the transaction was lost
    this.#errors[commit] = null
    this.#results[commit + 1] = NO_ROWS
  }

  /** Ends the transaction of a batch. Its COMMIT is sent after the results of its statements have arrived. */
  async #endAtomic(first: number, count: number, closes: boolean): Promise<void> {
    const commit = first + count
    if (!this.#isLost && !this.#hasFailed(first, count)) await this.#executeEach([COMMIT], commit, closes)
    if (this.#results[commit]) return
    // closing the stream rolls back
    if (closes) this.#results[commit + 1] = NO_ROWS
    else await this.#executeEach([ROLLBACK], commit + 1, false)
  }

  /** Executes statements one by one, until one fails. Changes made before the failure are kept if they belong to a chain. */
  async #executeEach(
    commands: readonly EncodedStatement[],
    first: number,
    closes: boolean,
    chain?: QueuedCall,
  ): Promise<void> {
    for (const [index, { json, sql }] of commands.entries()) {
      const [result] = await this.#send([json], closes && index === commands.length - 1).catch(
        (error: unknown) => {
          // the earlier statements of a chain are committed
          const mayBeApplied = commands.slice(0, index).some(({ kind }) => kind !== 'read')
          if (mayBeApplied) chain?.reject(withOutcome(error, 'unknown'))
          throw error
        },
      )
      this.#record(first + index, result)
      const wireError = this.#errors[first + index]
      if (!wireError) continue
      this.#state.isUnproven = true
      const error = new SqlError(wireError, sql)
      // An error that the database did not send may come from a proxy, so the statement may have run; `statementIndex` would imply
      // that it did not.
      if (error.outcome === 'unknown' && error.constraint === null) chain?.reject(error)
      break
    }
  }

  /**
   * Executes statements in as few requests as is safe. Each statement that might run outside the transaction is sent alone, or
   * preceded by a BEGIN that must fail. Once half of the transaction's time limit has passed, statements are sent one by one: from
   * then on, another writer might take over the lock between a test BEGIN and the statement after it. The server rejects the first
   * statement after a takeover.
   */
  async #execute(
    call: QueuedCall,
    commands: readonly EncodedStatement[],
    first: number,
    closes: boolean,
  ): Promise<void> {
    const { clock, tursodb } = this.#stream.http
    const now = clock.now()
    const beginIndex = call.prefix.findIndex(({ kind }) => kind === 'begin')
    if (beginIndex >= 0) this.#state.begunAt = now
    const isLate = now - this.#state.begunAt > TRANSACTION_WINDOW_MS / 2
    const count = isLate ? 0 : this.#countHarmless(call)
    const isWhole = count >= commands.length
    if (count > 0) await this.#executeTogether(call, commands.slice(0, count), first, closes && isWhole)
    const isLocked = beginIndex >= 0 && this.#errors[first + beginIndex]?.code === 'SQLITE_BUSY'
    if (isLocked && !(closes && isWhole) && tursodb === null && this.#stream.http.tursodb) {
      // the engine was detected by this error: BEGIN is sent again, alone, so that it waits
      await this.#send([ROLLBACK.json], false)
      this.#isLost = false
      this.#state.isLost = false
      this.#state.isUnproven = false
      this.#results.fill(null, first, first + commands.length)
      this.#errors.fill(null, first, first + commands.length)
      await this.#execute(call, commands, first, closes)
    } else if (!isWhole && !this.#isLost && !this.#hasFailed(first, count))
      await this.#executeEach(commands.slice(count), first + count, closes)
  }

  /** Returns how many commands of a call may share the first request. */
  #countHarmless({ isReadOnly, prefix, scope, statements }: QueuedCall): number {
    const beginIndex = prefix.findIndex(({ needsWriteLock }) => needsWriteLock)
    // this engine rejects a BEGIN instead of letting it wait, and then executes the rest without it
    if (beginIndex >= 0 && this.#stream.http.tursodb) return beginIndex + 1
    // in a transaction, a later statement might end it; in a deferred one, it might acquire the write lock
    const isHarmless = isReadOnly || (scope === 'atomic' && beginIndex >= 0)
    return prefix.length + (isHarmless ? statements.length : Math.min(1, statements.length))
  }

  /** Executes commands in one request, each after a BEGIN that must fail. */
  async #executeTogether(
    call: QueuedCall,
    commands: readonly EncodedStatement[],
    first: number,
    closes: boolean,
  ): Promise<void> {
    const { prefix, scope } = call
    /** The step of each operation; `test` for a BEGIN that must fail. */
    const steps: (number | 'test')[] = []
    const operations: string[] = []
    for (const [index, { json, kind }] of commands.entries()) {
      // only a pragma can precede BEGIN
      if (index > 0 && !(kind === 'begin' && prefix.includes(commands[index] as ControlStatement))) {
        operations.push(TEST_BEGIN.json)
        steps.push('test')
      }
      operations.push(json)
      steps.push(first + index)
    }
    const results = await this.#send(operations, closes)
    let hasFailed = false
    for (const [index, step] of steps.entries()) {
      const result = results[index]
      if (step === 'test') {
        if (provesTransaction(result)) continue
        this.#isLost = true
        const message = result?.type === 'error' ? result.error.message : null
        // The BEGIN failed for another reason, so it does not show whether a transaction is open: the next statement may have run
        // outside of one.
        if (message !== null && !hasFailed)
          call.reject(new ProtocolError(`the transaction was lost: ${message}`))
      } else if (!this.#isLost && !hasFailed) {
        this.#record(step, result)
        hasFailed = this.#errors[step] !== null
      }
    }
    if (scope === 'transaction' && this.#isLost) this.#state.isLost = true
    else if (scope === 'transaction' && hasFailed) this.#state.isUnproven = true
  }

  /** Proves that the transaction exists, after a statement that failed and may have ended it. */
  async #proveTransaction(): Promise<void> {
    const [result] = await this.#send([TEST_BEGIN.json], false)
    this.#state.isUnproven = false
    this.#isLost = !provesTransaction(result)
    if (this.#isLost) this.#state.isLost = true
  }

  #hasFailed(first: number, count: number): boolean {
    return this.#results.slice(first, first + count).includes(null)
  }

  #record(step: number, result: WireStreamResult | undefined): void {
    if (result?.type === 'error') this.#errors[step] = result.error
    else this.#results[step] = result?.response.result as WireResult
  }

  async #send(statements: readonly string[], closes: boolean): Promise<StreamResults> {
    const isFirst = this.#isFirst
    this.#isFirst = false
    // a new stream would not be in the transaction
    if (!isFirst && this.#stream.state.baton === null)
      return this.#fail(invalidResponse('no baton in the middle of a stream'))
    const encode = (index: string | null): string[] =>
      statements.map(
        (json, position) => `{"type":"execute","stmt":${withIndex(json, position === 0 ? index : null)}}`,
      )
    const response = await this.#stream.post({ ...this.#sending, closes }, encode)
    if (response.isOk) {
      const results = response.value.slice(0, statements.length)
      if (results.length === statements.length && results.every(isResult)) return response.value
      return this.#fail(invalidResponse('the response omits a result'))
    }
    // the call must not be retried as a whole, because an earlier part of it was executed
    if (isFirst) return this.#fail(response)
    // a proxy may have sent it twice, and this may be the rejection of the second copy
    const { error } = response
    const unknownError = error instanceof HttpError ? withOutcome(error, 'unknown') : error
    return this.#fail({ ...response, isSent: true, error: unknownError })
  }

  #fail(failure: NoResponse<StreamResults>): never {
    this.failure = failure
    throw failure.error
  }
}

const invalidResponse = (message: string): NoResponse<never> => ({
  isOk: false,
  isSent: true,
  error: new ProtocolError(message),
})

/** Whether a BEGIN failed because a transaction is open. */
const provesTransaction = (result: WireStreamResult | undefined): boolean =>
  result?.type === 'error' && IN_TRANSACTION.test(result.error.message)

function isResult(value: WireStreamResult | undefined): boolean {
  if (value?.type === 'error') return isWireError(value.error)
  const { result } = (value?.response ?? {}) as { result?: Partial<WireResult> | null }
  return Array.isArray(result?.cols)
}

const NO_ROWS: WireResult = { cols: [], rows: [], affected_row_count: 0 }
