import { copyError, HttpError, identityOf, SqlError, StreamError, withOutcome } from '../base/errors.ts'
import { joinSignals } from '../base/join-signals.ts'
import { CLOSE_TIMEOUT_MS } from '../base/limits.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import {
  COMMIT,
  type ControlStatement,
  type ROLLBACK,
  releaseStatement,
  rollbackToStatement,
  savepointStatement,
} from '../codec/control.ts'
import { UNPROVEN_V3_GUARD, V3_GUARD } from '../codec/guard.ts'
import { InsertedRowids } from '../codec/inserted-rowids.ts'
import {
  CLOSE as CLOSE_STREAM,
  decodePipeline,
  pipelineBody,
  readReplicationIndex,
} from '../codec/pipeline.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import { type Address, followBaseUrl } from '../config.ts'
import { type Http, type ServerFeatures, unwrap } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import type { Permit } from '../http/limiter.ts'
import { notSent, type SendResult } from '../http/message.ts'
import { CLOSE, CONCURRENT, CONTINUE, READ, type RequestPolicy, WRITE } from '../http/policies.ts'
import { lockHint } from '../http/write-lock.ts'
import { nextId } from '../observe/events.ts'
import type { AtomicBatchOptions, CallOptions } from '../options.ts'
import { areReadOnly, batchPrefix, type QueuedCall, type Results } from '../request/queued-call.ts'
import { type Loss, type Settlement, SqlRequest } from '../request/sql-request.ts'
import { queueFullError, timeoutError } from '../transport/failure.ts'
import type { Encode, Sending, SendingStream, StreamResults } from './execute-only.ts'
import { StreamMachine } from './machine.ts'
import type { Rejection } from './rejection.ts'
import type { Effect, LastSending, StreamEvent } from './stream-events.ts'
import { holdsLock, isInTransaction, nextWake, type StreamLoss } from './stream-state.ts'

/** A call whose promise was not created yet. */
type Unsettled<Call> = Call extends QueuedCall ? Omit<Call, 'resolve' | 'reject'> : never

const FLUSH = { type: 'flush' } as const

/** What the caller specifies for a call: its time limit and, in a transaction, the state of the handle that makes it. */
export type CallContext = Pick<QueuedCall, 'deadline' | 'handleState'>

/** The shell of a stream: performs what `step` decides, and reports what happens. Decides nothing. */
export class ServerStream implements OpenStream, SendingStream {
  readonly http: Http
  readonly #machine: StreamMachine
  readonly state: StreamMachine['state']
  /** Whether the client, when it is closed, waits for the call that opens this stream. */
  readonly #isTracked: boolean
  /** The server that the stream is bound to. */
  address: Address
  /** Set if the stream is bound to `/v2`, whatever the client detects about the server later. */
  #V2Guard: ServerFeatures['V2Guard']
  readonly rowids = new InsertedRowids()
  lastSending: LastSending = { sentAt: 0, continuesStream: false }
  #resolveEnded!: () => void
  /** Settles when the stream no longer accepts calls. */
  readonly ended = new Promise<void>((resolve) => (this.#resolveEnded = resolve))
  /** Settles after the response to the last request. */
  lastRequest: Promise<void> = Promise.resolve()
  /** Settles when the COMMIT or ROLLBACK has. */
  ending: Promise<unknown> | null = null
  #isPerforming = false
  #isOpenOnServer = false
  #permit: Permit | null = null
  #wakeAt = Infinity
  #cancelWake: (() => void) | null = null
  #lossError: StreamError | null = null
  #lastSql: string | undefined
  /** Stops watching the signal of a call. */
  readonly #watches = new Map<QueuedCall, () => void>()
  /** Resolves the pending calls to `close`. */
  #closeResolvers: (() => void)[] = []
  #mustWaitForClose = true
  /** Identities of the errors of statements of transactions. */
  #failures: WeakSet<object> | null = null

  constructor(http: Http, isTracked = false) {
    this.http = http
    this.address = http.config.address
    this.#isTracked = isTracked
    this.#machine = new StreamMachine(http)
    this.state = this.#machine.state
  }

  /** Tells the machine what has happened, and performs what it decides. @throws the error of a misuse */
  dispatch(event: StreamEvent): void {
    const { effects, state } = this.#machine
    this.#machine.step(event)
    this.#track()
    const { refusal } = this.#machine
    if (refusal) {
      this.#machine.refusal = null
      throw this.#toError(refusal)
    }
    // an event of an observer or of an effect: its effects follow the earlier ones
    if (this.#isPerforming) return
    this.#isPerforming = true
    for (const effect of effects) this.#perform(effect)
    effects.length = 0
    this.#isPerforming = false
    // the calls of a tick are not watched before they are sent
    if (state.phase !== 'collecting') this.#setTimer()
  }

  /** Records the baton of a response, which continues the stream. */
  setBaton(baton: string | null): void {
    this.state.baton = baton
    this.#track()
  }

  /** Tells the client whether the stream is open on the server. */
  #track(): void {
    const isOpen = this.state.baton !== null
    if (isOpen === this.#isOpenOnServer) return
    this.#isOpenOnServer = isOpen
    this.http.lifetime.trackStream(this, isOpen)
  }

  #perform(effect: Effect): void {
    switch (effect.type) {
      case 'flushSoon':
        // four microtasks: calls made after an `await` or two still join the request
        return void Promise.resolve().then(null).then(null).then(null).then(this.#flush)
      case 'send':
        this.lastRequest = this.#send(effect)
        return
      case 'openCursor':
        this.#stopWatch(effect.call)
        return effect.call.resolve([])
      case 'stopCursor':
        return effect.call.reader.stop(effect.endsStream, this.#toError(effect.rejection))
      case 'sendClose':
        return void this.#sendClose().then(() => this.dispatch({ type: 'closeEnded' }))
      case 'resolve':
        this.#stopWatch(effect.call)
        return effect.call.resolve(effect.results)
      case 'reject':
        this.#stopWatch(effect.call)
        return effect.call.reject(this.#toError(effect.rejection), effect.isOutdated)
      case 'acquirePermit':
        return this.#acquirePermit()
      case 'releasePermit': {
        const permit = this.#permit
        this.#permit = null
        return permit?.release()
      }
      case 'recordLock':
        this.http.writeLock.acquired += 1
        return
      case 'watch':
        return this.#watch(effect.call)
      case 'emit':
        return this.http.events.emit(effect.event)
      case 'lost':
        return this.http.events.emit({ type: 'transaction:lost', id: effect.id, error: this.#getLossError() })
      case 'resolveEnded':
        return this.#resolveEnded()
      case 'resolveClose':
        this.#mustWaitForClose = false
        for (const resolve of this.#closeResolvers.splice(0)) resolve()
    }
  }

  readonly #flush = (): void => this.dispatch(FLUSH)

  async #send({ calls, closes }: Extract<Effect, { type: 'send' }>): Promise<void> {
    const { http } = this
    for (const call of calls) this.#stopWatch(call)
    const request = new SqlRequest(calls)
    this.#lastSql = calls.at(-1)?.statements.at(-1)?.sql
    const result = await this.send(request, closes)
    let settlement: Settlement
    try {
      settlement = request.read(unwrap(result)[0], { intMode: http.config.intMode, rowids: this.rowids })
    } catch (error) {
      if (result.isOk || result.isSent)
        return this.dispatch({ type: 'noResponse', calls, error, sending: this.lastSending })
      const aborted = new Map<QueuedCall, unknown>()
      for (const call of calls)
        if (call.options.signal?.aborted) aborted.set(call, call.options.signal.reason)
      return this.dispatch({ type: 'notSent', calls, error, aborted })
    }
    const { server } = http
    if (settlement.evaluatesConditions) server.evaluatesConditions = true
    if (calls[0]?.scope !== 'autocommit') server.isExecuteOnly ??= false
    this.dispatch({ type: 'response', calls, settlement, closes, sending: this.lastSending })
  }

  /** Sends one request, in the form that the server supports. Never rejects. */
  async send(request: SqlRequest, closes: boolean): Promise<SendResult<StreamResults>> {
    const { lifetime, server } = this.http
    const isNew = this.state.baton === null
    const isCounted = isNew && !this.#isTracked
    if (isCounted) {
      try {
        lifetime.begin()
      } catch (error) {
        return notSent(error)
      }
    }
    const { calls } = request
    const { deadline } = calls.reduce((a, b) => (b.deadline.endsAt < a.deadline.endsAt ? b : a))
    const signals = calls.flatMap(({ options }) => options.signal ?? [])
    const joinedSignals = signals.length > 1 ? joinSignals(signals) : null
    const signal = joinedSignals?.signal ?? signals[0]
    const mayHoldLock = holdsLock(this.state) || request.needsWriteLock
    const sending = { request, closes, mayHoldLock, deadline, signal }
    const isBatch = calls[0]?.scope !== 'autocommit'
    let result = server.isExecuteOnly && isBatch ? null : await this.post(sending)
    // if a module cannot be loaded, nothing was executed: the server has rejected the request that needs it
    // another call may have detected `/v3` in the meantime
    if (isNew && result && !result.isOk && isUnsupportedPath(result.error) && !server.hasV3) {
      const module = await import('../codec/v2-guard.ts').catch(notSent)
      if ('V2Guard' in module) this.#V2Guard = module.V2Guard
      result = 'V2Guard' in module ? await this.post(sending) : module
    }
    const mayBeExecuteOnly =
      isBatch && result && !result.isOk && result.error instanceof HttpError && result.error.status === 400
    if (!result || (mayBeExecuteOnly && server.isExecuteOnly !== false)) {
      const module = await import('./execute-only.ts').catch(notSent)
      result = 'sendExecutes' in module ? await module.sendExecutes(this, sending, result) : module
    }
    joinedSignals?.stop()
    if (!result.isOk && result.readLateResponse) this.awaitLate(result.readLateResponse())
    if (isCounted) lifetime.end()
    return result
  }

  /** Sends operations on the stream. @param encode encodes them; by default, they are the request's own */
  post(
    { closes, deadline, mayHoldLock, request, signal }: Sending,
    encode?: Encode,
  ): Promise<SendResult<StreamResults>> {
    const { http } = this
    const { baton } = this.state
    if (baton === null) this.#V2Guard ??= http.server.V2Guard
    const V2Guard = this.#V2Guard
    // every attempt has the same steps: the response to an earlier one may be read last
    const { evaluatesConditions } = http.server
    return http.exchange(
      `/v${V2Guard ? 2 : 3}/pipeline`,
      (index) => {
        this.recordSend()
        const guard = V2Guard
          ? new V2Guard(evaluatesConditions ? 'commit' : 'begin')
          : evaluatesConditions
            ? V3_GUARD
            : UNPROVEN_V3_GUARD
        const operations = encode?.(index) ?? [request.encode(guard, index)]
        return pipelineBody(closes ? [...operations, CLOSE_STREAM] : operations, baton)
      },
      {
        deadline,
        signal,
        limiter: baton === null ? (mayHoldLock ? http.writes : http.reads) : null,
        needsIndex: request.isFirst,
        mayOmitIndex: baton === null && request.isReadOnly,
        policy: choosePolicy(request, baton, mayHoldLock),
        calls: request.calls,
        inTransaction: request.calls[0]?.scope === 'transaction',
        permit: this.state.permit === 'held' ? this.#permit : null,
      },
      (text) => this.#read(text, closes),
      this.address,
    )
  }

  /** Called just before a request is sent. */
  recordSend(): void {
    this.lastSending = { sentAt: this.http.clock.now(), continuesStream: this.state.baton !== null }
  }

  #read(text: string, closes: boolean): StreamResults {
    const { config, replica, server } = this.http
    const response = decodePipeline(text)
    const { baton, base_url: baseUrl, results } = response
    this.setBaton(closes ? null : (baton ?? null))
    // a baton on `/v3` proves that the server supports it; `/v2` is used only if `/v3` was not found
    if (this.#V2Guard) server.V2Guard = this.#V2Guard
    else server.hasV3 ||= this.state.baton !== null
    this.address = (baseUrl && followBaseUrl(baseUrl, config)) || this.address
    replica.record(readReplicationIndex(response))
    return results
  }

  /** Closes the stream on the server. Never rejects. */
  async #sendClose(): Promise<void> {
    const { http } = this
    const body = pipelineBody([CLOSE_STREAM], this.state.baton)
    // a request that is aborted earlier could leave the write lock held
    const timeoutMs = Math.max(http.config.requestTimeoutMs, CLOSE_TIMEOUT_MS)
    // aborted only when the client is closed: an abort creates a DOMException with a stack, a fifth of a transaction's CPU time
    const controller = new AbortController()
    const { signal } = controller
    const options = { deadline: http.deadline(timeoutMs), signal, limiter: null, policy: CLOSE }
    const path = `/v${this.#V2Guard ? 2 : 3}/pipeline`
    const response = http.exchange(
      path,
      () => body,
      options,
      () => {},
      this.address,
    )
    http.lifetime.addBackground(response, () => controller.abort())
    // not retried, with or without a response
    await response
  }

  /** Waits for the response to an aborted request, after which the stream can be closed. @param response reads its baton */
  awaitLate(response: Promise<unknown>): void {
    this.dispatch({ type: 'aborted' })
    const end = (isOk: boolean) => (): void => this.dispatch({ type: 'lateResponse', isOk })
    this.http.lifetime.addBackground(response.then(end(true), end(false)))
  }

  #acquirePermit(): void {
    let permit: Permit
    try {
      permit = this.http.writeLock.acquirePermit()
    } catch (error) {
      return this.dispatch({ type: 'permitFailed', error })
    }
    this.#permit = permit
    if (!permit.waiter) return this.dispatch({ type: 'permitGranted', hasWaited: false })
    this.dispatch({ type: 'permitQueued' })
    // unless it was released in the meantime
    const report = (event: StreamEvent): void => {
      if (this.#permit === permit) this.dispatch(event)
    }
    permit.waiter.promise.then(
      () => report({ type: 'permitGranted', hasWaited: true }),
      (error: unknown) => report({ type: 'permitFailed', error }),
    )
  }

  #watch(call: QueuedCall): void {
    const { lifetime } = this.http
    // after the client was closed, every request is rejected anyway
    if (this.#watches.has(call) || lifetime.isAborted) return
    const waiter = lifetime.wait({ signal: call.options.signal })
    waiter.promise.catch((reason: unknown) => this.dispatch({ type: 'abort', call, reason }))
    this.#watches.set(call, waiter.resolve)
  }

  /** Stops watching the signal of a call, which its request watches instead. */
  #stopWatch(call: QueuedCall): void {
    this.#watches.get(call)?.()
    this.#watches.delete(call)
  }

  /** Sets the one timer. It may fire early: one timer outlives several requests, since each costs more than encoding a statement. */
  #setTimer(): void {
    const { state } = this.#machine
    const at = nextWake(state, this.http.config)
    if (at === this.#wakeAt || (at === Infinity ? state.transaction : at > this.#wakeAt)) return
    this.#cancelWake?.()
    this.#wakeAt = at
    const { clock } = this.http
    if (at !== Infinity) this.#cancelWake = clock.after(Math.max(0, at - clock.now()), this.#wake)
  }

  readonly #wake = (): void => {
    this.#wakeAt = Infinity
    this.dispatch({ type: 'wake' })
  }

  #toError(rejection: Rejection): unknown {
    const { config } = this.http
    switch (rejection.type) {
      case 'error':
        return rejection.error
      case 'ended':
        return this.endError()
      case 'stream':
        return new StreamError(rejection.code, rejection.message)
      case 'misuse':
        return new TypeError(rejection.message)
      case 'queueFull':
        return queueFullError(config.queueLimit)
      default:
        return timeoutError(rejection.timeoutMs, config.address.origin)
    }
  }

  #getLossError(): StreamError {
    const { code, message, cause, elapsedMs, hasBlocked } = this.state.loss as StreamLoss
    const hint =
      code === 'TRANSACTION_EXPIRED' && hasBlocked ? lockHint('call of this client waited for') : ''
    this.#lossError ??= new StreamError(code, message + hint, cause, elapsedMs, this.#lastSql)
    return this.#lossError
  }

  /** Runs statements in the transaction of the stream, or in `defaultScope` if none is open. */
  // oxlint-disable-next-line max-params
  run(
    statements: readonly EncodedStatement[],
    defaultScope: 'autocommit' | 'chain' | 'atomic',
    options: AtomicBatchOptions,
    context: CallContext = { deadline: this.http.deadline(options.timeoutMs) },
  ): Promise<Results> {
    // on a closed stream, it is rejected below
    if (statements.length === 0 && this.state.isOpen) {
      this.http.lifetime.checkOpen(this.#isTracked || this.#isOpenOnServer, options.signal)
      return Promise.resolve([])
    }
    const inTransaction = isInTransaction(this.state)
    const scope = inTransaction ? 'transaction' : defaultScope
    const isReadOnly = areReadOnly(statements, options)
    const prefix = scope === 'atomic' ? batchPrefix(isReadOnly, options) : []
    const id = inTransaction ? (this.state.transaction?.id ?? null) : null
    return this.http.events.query(statements, id, () =>
      this.enqueue({ kind: 'statements', statements, scope, prefix, isReadOnly, options, ...context }),
    )
  }

  enqueue(call: Unsettled<QueuedCall>): Promise<Results> {
    return new Promise((resolve, reject) => {
      if (this.state.isOpen) call.options.signal?.throwIfAborted()
      const inTransaction = call.kind === 'statements' && call.scope === 'transaction'
      const rejectCall = (error: unknown, isOutdated = false): void =>
        reject(inTransaction ? this.toFailure(error, isOutdated) : error)
      this.dispatch({ type: 'call', call: { ...call, resolve, reject: rejectCall } })
    })
  }

  /** Begins a transaction. Nothing is sent: BEGIN is sent with the first statement. @throws StreamError; TypeError in a transaction */
  begin(statement: ControlStatement): void {
    this.dispatch({ type: 'begin', id: nextId(), statement })
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError if the transaction was lost */
  async commit(options: CallOptions): Promise<void> {
    try {
      await this.end(COMMIT, options)
    } catch (error) {
      throw withCallerStack(error, [COMMIT])
    }
  }

  /** Ends the transaction; sends nothing if the server has not begun it. */
  end(statement: typeof COMMIT | typeof ROLLBACK, options: CallOptions): Promise<Results> {
    const wasEnding = this.state.transaction?.isEnding
    const ending = this.enqueue({
      kind: statement.kind,
      statements: [statement],
      scope: 'transaction',
      prefix: [],
      isReadOnly: false,
      options: { ...options },
      deadline: this.http.deadline(options.timeoutMs),
    })
    if (!wasEnding && this.state.transaction?.isEnding) this.ending = ending
    return ending
  }

  /** Sets a savepoint; sent with the next statement. */
  savepoint(name: string): void {
    this.dispatch({ type: 'savepoint', statement: savepointStatement(name) })
  }

  /** Undoes the changes made since a savepoint, and keeps the savepoint; sent with the next statement. */
  rollbackTo(name: string): void {
    const savepoint = savepointStatement(name)
    this.dispatch({ type: 'rollbackTo', statement: rollbackToStatement(name), savepoint })
  }

  /** Releases a savepoint and keeps the changes made since; sent with the next statement. */
  release(name: string): void {
    const savepoint = savepointStatement(name)
    this.dispatch({ type: 'release', statement: releaseStatement(name), savepoint })
  }

  /**
   * Closes the stream after the calls in its queue; an open transaction is rolled back. Does not wait for a server that did
   * not respond to the last request. Never rejects.
   */
  close(): Promise<void> {
    this.dispatch({ type: 'close' })
    return this.#mustWaitForClose ? this.#untilClosed() : Promise.resolve()
  }

  /** Closes the stream because the client is closed. */
  async abandon(): Promise<void> {
    this.dispatch({ type: 'clientClosed' })
    while (this.state.phase !== 'closed') await this.#untilClosed()
  }

  #untilClosed(): Promise<void> {
    return new Promise((resolve) => this.#closeResolvers.push(resolve))
  }

  /** Declares the stream and its transaction lost. @returns the error of calls from now on */
  lose(loss: Loss): StreamError {
    this.dispatch({ type: 'lost', loss })
    return this.endError()
  }

  /** @throws StreamError after the stream was closed or lost */
  checkOpen(): void {
    if (!this.state.isOpen) throw this.endError()
  }

  /** Returns the error of calls after the stream was closed or lost. */
  endError(): StreamError {
    return this.state.loss ? this.#getLossError() : new StreamError('STREAM_CLOSED', 'the stream is closed')
  }

  /** Records the error of a statement. @returns it, with a hint if another call of this client has written since the snapshot */
  toFailure(error: unknown, isOutdated: boolean): unknown {
    const identity = identityOf(error)
    if (!identity) return error
    this.#failures ??= new WeakSet()
    this.#failures.add(identity)
    if (!isOutdated || !(error instanceof SqlError) || error.code !== 'SQLITE_BUSY') return error
    return copyError(error, { message: error.message + lockHint('call of this client acquired') })
  }

  /** Returns the error of the whole transaction, or of a savepoint, that was undone because of an error. */
  undoneError(error: unknown): unknown {
    const identity = identityOf(error)
    return identity && this.#failures?.has(identity) ? withOutcome(error, 'not_applied') : error
  }
}

/** Whether the server does not support the path. A 404 for another reason has a JSON body. */
export const isUnsupportedPath = (error: unknown): boolean =>
  error instanceof HttpError && error.status === 404 && error.body[0] !== '{'

/**
 * Returns the policy of a request on a stream.
 * @param mayHoldLock whether the stream holds the write lock or the request may acquire it
 */
export function choosePolicy(
  { isReadOnly }: SqlRequest,
  baton: string | null,
  mayHoldLock: boolean,
): RequestPolicy {
  if (mayHoldLock) return WRITE
  if (!isReadOnly) return CONCURRENT
  return baton === null ? READ : CONTINUE
}
