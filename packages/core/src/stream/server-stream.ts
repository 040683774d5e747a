import { copyError, SqlError, StreamError, withOutcome } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import {
  COMMIT,
  type ControlStatement,
  type ROLLBACK,
  releaseStatement,
  rollbackToStatement,
  savepointStatement,
} from '../codec/control.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import type { Permit } from '../http/limiter.ts'
import { lockHint } from '../http/write-lock.ts'
import { nextId } from '../observe/events.ts'
import type { AtomicBatchOptions, CallOptions } from '../options.ts'
import { areReadOnly, batchPrefix, type QueuedCall, type Results } from '../request/queued-call.ts'
import { type Settlement, SqlRequest } from '../request/sql-request.ts'
import { queueFullError, timeoutError } from '../transport/failure.ts'
import type { Rejection } from './classify-failure.ts'
import {
  type Effect,
  isInTransaction,
  nextWake,
  type StreamEvent,
  type StreamLoss,
  StreamMachine,
  type StreamState,
} from './machine.ts'
import { StreamConnection } from './stream-connection.ts'

const FLUSH = { type: 'flush' } as const

/** What the handle of a transaction or savepoint adds to its calls. */
export type HandleCall = Pick<QueuedCall, 'deadline' | 'handle'>

/** The shell of a stream: performs what `step` decides, and reports what happens. Decides nothing. */
export class ServerStream implements OpenStream {
  readonly http: Http
  readonly connection: StreamConnection
  readonly #machine: StreamMachine
  #resolveEnded!: () => void
  /** Settles when the stream no longer accepts calls. */
  readonly ended = new Promise<void>((resolve) => (this.#resolveEnded = resolve))
  /** Settles after the response to the last request. */
  lastRequest: Promise<void> = Promise.resolve()
  /** Settles when the COMMIT or ROLLBACK has. */
  ending: Promise<unknown> | null = null
  #isPerforming = false
  #permit: Permit | null = null
  #wakeAt = Infinity
  #cancelWake: (() => void) | null = null
  #lossError: StreamError | null = null
  #lastSql: string | undefined
  /** Resolves the pending calls to `close`. */
  #closeResolvers: (() => void)[] = []
  #mustWaitForClose = true
  /** Errors of the statements of transactions. */
  #failures: WeakSet<Error> | null = null

  /** @param isTracked whether the client, when it is closed, waits for the call that opens this stream */
  constructor(http: Http, isTracked = false) {
    this.http = http
    this.#machine = new StreamMachine(http)
    this.connection = new StreamConnection(this, isTracked)
  }

  get state(): StreamState {
    return this.#machine.state
  }

  /** Records the baton of a response, which continues the stream. */
  setBaton(baton: string | null): void {
    const { state } = this.#machine
    if ((state.baton === null) !== (baton === null)) this.http.lifetime.trackStream(this, baton !== null)
    state.baton = baton
  }

  /** Tells the machine what has happened, and performs what it decides. @throws the error of a misuse */
  dispatch(event: StreamEvent): void {
    const { effects, state } = this.#machine
    const hadBaton = state.baton !== null
    this.#machine.step(event)
    if ((state.baton !== null) !== hadBaton) this.http.lifetime.trackStream(this, !hadBaton)
    const { refusal } = this.#machine
    if (refusal) {
      this.#machine.refusal = null
      throw this.#toError(refusal)
    }
    // an event of an observer or of an effect: its effects follow the earlier ones
    if (this.#isPerforming) return
    this.#isPerforming = true
    for (let effect = effects.shift(); effect; effect = effects.shift()) this.#perform(effect)
    this.#isPerforming = false
    // the calls of a tick are not watched before they are sent
    if (state.phase !== 'collecting') this.#setTimer()
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
        effect.call.stopWatch?.()
        return effect.call.resolve([])
      case 'stopCursor':
        return effect.call.cursor?.stop(effect.endsStream, this.#toError(effect.rejection))
      case 'sendClose':
        return void this.connection.close().then(() => this.dispatch({ type: 'closed' }))
      case 'resolve':
        effect.call.stopWatch?.()
        return effect.call.resolve(effect.results)
      case 'reject':
        effect.call.stopWatch?.()
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
      case 'ended':
        return this.#resolveEnded()
      case 'closed':
        this.#mustWaitForClose = false
        for (const resolve of this.#closeResolvers.splice(0)) resolve()
    }
  }

  readonly #flush = (): void => this.dispatch(FLUSH)

  async #send({ calls, closes, mayHoldLock }: Extract<Effect, { type: 'send' }>): Promise<void> {
    const { connection, http } = this
    for (const call of calls) call.stopWatch?.()
    const request = new SqlRequest(calls)
    this.#lastSql = calls.at(-1)?.statements.at(-1)?.sql
    const result = await connection.send(request, closes, { mayHoldLock, permit: this.permit })
    if (!result.isOk) {
      const { error } = result
      if (result.isSent)
        return this.dispatch({ type: 'noResponse', calls, error, sending: connection.lastSending })
      const aborted = new Map<QueuedCall, unknown>()
      for (const call of calls)
        if (call.options.signal?.aborted) aborted.set(call, call.options.signal.reason)
      return this.dispatch({ type: 'notSent', calls, error, aborted })
    }
    let settlement: Settlement
    try {
      settlement = request.read(result.value[0], {
        intMode: http.config.intMode,
        rowids: connection.rowids,
      })
    } catch (error) {
      return this.dispatch({ type: 'noResponse', calls, error, sending: connection.lastSending })
    }
    const { server } = http
    if (settlement.evaluatesConditions) server.evaluatesConditions = true
    if (calls[0]?.scope !== 'autocommit') server.isExecuteOnly ??= false
    this.dispatch({ type: 'response', calls, settlement, closes, sending: connection.lastSending })
  }

  /** Waits for the response to an aborted request, after which the stream can be closed. @param response reads its baton */
  awaitLate(response: Promise<unknown>): void {
    this.dispatch({ type: 'aborted' })
    const end = (isOk: boolean) => (): void => this.dispatch({ type: 'lateResponse', isOk })
    this.http.lifetime.addBackground(response.then(end(true), end(false)))
  }

  /** The write permit that the transaction holds. */
  get permit(): Permit | null {
    return this.state.permit === 'held' ? this.#permit : null
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
    if (call.stopWatch || lifetime.isAborted) return
    const waiter = lifetime.wait({ signal: call.options.signal })
    waiter.promise.catch((reason: unknown) => this.dispatch({ type: 'abort', call, reason }))
    call.stopWatch = () => {
      call.stopWatch = undefined
      waiter.resolve()
    }
  }

  /** Sets the one timer. It may fire early: one timer outlives several requests, since each costs more than encoding a statement. */
  #setTimer(): void {
    const { state } = this.#machine
    const at = nextWake(state, this.http)
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
      case 'timeout':
        break
    }
    return timeoutError(rejection.timeoutMs, config.address.origin)
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
    defaultScope: QueuedCall['scope'],
    options: AtomicBatchOptions,
    { deadline, handle }: HandleCall = { deadline: this.http.deadline(options.timeoutMs) },
  ): Promise<Results> {
    if (statements.length === 0) return Promise.resolve([])
    const { transaction } = this.state
    const inTransaction = isInTransaction(this.state)
    const scope = inTransaction ? 'transaction' : defaultScope
    const isReadOnly = areReadOnly(statements, options)
    const prefix = scope === 'atomic' ? batchPrefix(isReadOnly, options) : []
    const id = inTransaction ? (transaction?.id ?? null) : null
    const call = {
      statements,
      scope,
      prefix,
      isReadOnly,
      options,
      deadline,
      handle,
      canCoalesce: inTransaction,
    }
    return this.http.events.query(statements, id, () => this.enqueue(call, inTransaction))
  }

  /** Queues a call. */
  enqueue(
    call: Omit<QueuedCall, 'resolve' | 'reject'>,
    isInTransaction = false,
    type: 'call' | 'end' = 'call',
  ): Promise<Results> {
    return new Promise((resolve, reject) => {
      if (this.state.isOpen) call.options.signal?.throwIfAborted()
      const rejectCall = (error: unknown, isOutdated = false): void => {
        if (isInTransaction) this.addFailure(error, isOutdated)
        reject(error)
      }
      this.dispatch({ type, call: { ...call, resolve, reject: rejectCall } })
    })
  }

  /** Begins a transaction. Nothing is sent: BEGIN is sent with the first statement. @throws StreamError; TypeError in a transaction */
  begin(statement: ControlStatement): void {
    this.dispatch({ type: 'begin', id: nextId(), statement })
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError if the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    try {
      await this.end(COMMIT, options)
    } catch (error) {
      throw withCallerStack(error, [COMMIT])
    }
  }

  /** Ends the transaction; sends nothing if the server has not begun it. */
  end(statement: typeof COMMIT | typeof ROLLBACK, options: CallOptions): Promise<Results> {
    const deadline = this.http.deadline(options.timeoutMs)
    const wasEnding = this.state.transaction?.isEnding
    const ending = this.enqueue(
      {
        statements: [statement],
        scope: 'transaction',
        prefix: [],
        isReadOnly: false,
        options: { ...options },
        deadline,
        transactionEnd: statement.kind,
      },
      false,
      'end',
    )
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

  checkOpen(): void {
    if (!this.state.isOpen) throw this.endError()
  }

  /** Returns the error of calls after the stream was closed or lost. */
  endError(): StreamError {
    return this.state.loss
      ? copyError(this.#getLossError())
      : new StreamError('STREAM_CLOSED', 'the stream is closed')
  }

  /** Records the error of a statement, and adds a hint to it if another call of this client has written since the snapshot. */
  addFailure(error: unknown, isOutdated: boolean): void {
    this.#failures ??= new WeakSet()
    if (!(error instanceof Error) || this.#failures.has(error)) return
    if (isOutdated && error instanceof SqlError && error.code === 'SQLITE_BUSY')
      error.message += lockHint('call of this client acquired')
    this.#failures.add(error)
  }

  /** Returns the error of the whole transaction, or of a savepoint, that was undone because of an error. */
  undoneError(error: unknown): unknown {
    return error instanceof Error && this.#failures?.has(error) ? withOutcome(error, 'not_applied') : error
  }
}
