import type { Clock } from '../base/clock.ts'
import { ProtocolError, SqlError } from '../base/errors.ts'
import type { ControlStatement } from '../codec/control.ts'
import type { ResolvedConfig } from '../config.ts'
import type { ServerFeatures } from '../http/http.ts'
import type { WriteLock } from '../http/write-lock.ts'
import {
  type CursorCall,
  type EndCall,
  endMessage,
  endsTransaction,
  isCursor,
  isUndone,
  mayLock,
  needsWriteLock,
  type QueuedCall,
} from '../request/queued-call.ts'
import type { CallOutcome, Loss } from '../request/sql-request.ts'
import { classifyFailure, findRejection, IDLE_TIMEOUT_MESSAGE } from './failed-request.ts'
import { CURSOR_IS_OPEN, ENDED, NO_TRANSACTION, NOT_RUN, type Rejection, ROLLED_BACK } from './rejection.ts'
import type { Effect, LastSending, StreamEvent } from './stream-events.ts'
import {
  isInTransaction,
  isOutdated,
  isReading,
  lockWindowMs,
  newStreamState,
  nextWake,
  type TransactionState,
} from './stream-state.ts'

// The core of a stream: `step` changes the state and adds what must be done, and `nextWake` returns when the event `wake` is due.
// Nothing here depends on promises, timers, or the bodies of requests and responses. `ServerStream` performs the effects; of the state,
// it sets only the baton, and `executeOnly` for a server that has nothing else.

/** The part of a client that a stream uses. */
export interface StreamClient {
  readonly clock: Pick<Clock, 'now'>
  readonly config: Pick<ResolvedConfig, 'queueLimit' | 'transactionTimeoutMs'>
  readonly server: Pick<ServerFeatures, 'hasV3' | 'V2Guard'>
  readonly writeLock: Pick<WriteLock, 'acquired'>
  readonly hasPendingWrites: boolean
}

/** Maximum number of calls in one request to a `/v2` server, where each call has the conditions of all earlier ones. */
const MAX_V2_CALLS = 32

/**
 * Whether a call of a transaction has acquired the write lock, unless the transaction is lost. A write that has failed has not, unless
 * it has violated a constraint: it may have been refused the lock, or not been executed.
 */
function acquiredLock(call: QueuedCall, outcome?: CallOutcome): boolean {
  const { prefix, scope, statements } = call
  if (scope !== 'transaction' || !needsWriteLock(call)) return false
  const { error } = outcome ?? {}
  if (!(error instanceof SqlError) || error.code.startsWith('SQLITE_CONSTRAINT')) return true
  const succeeded = statements.slice(0, error.results.length)
  return succeeded.some(mayLock) || prefix.some((statement) => statement.needsWriteLock)
}

/** Whether a call may share a request with the next ones. */
const canCoalesce = (call: QueuedCall | undefined): boolean =>
  call?.kind === 'statements' && call.scope === 'transaction' && !call.mustBeAlone

/** Decides what a stream does. */
export class StreamMachine {
  readonly state = newStreamState()
  /** What must be done, in this order. `ServerStream` removes what it performs. */
  readonly effects: Effect[] = []
  /** Why the method that caused the last event must throw. */
  refusal: Rejection | null = null
  readonly #client: StreamClient

  constructor(client: StreamClient) {
    this.#client = client
  }

  /** Changes the state after an event, and adds effects. */
  // oxlint-disable-next-line max-lines-per-function -- every event in one place
  step(event: StreamEvent): void {
    const { state } = this
    switch (event.type) {
      case 'call':
        return endsTransaction(event.call) ? this.#end(event.call) : this.#enqueue(event.call)
      case 'flush':
        return this.#proceed()
      case 'response':
        return this.#settle(event)
      case 'begin':
        return this.#begin(event.id, event.statement)
      case 'savepoint':
        // after the end of the stream, the next call says why it has ended
        if (isInTransaction(state) || !state.isOpen) state.prefix = [...state.prefix, event.statement]
        else this.refusal = NO_TRANSACTION
        return
      case 'rollbackTo':
      case 'release':
        return this.#endSavepoint(event)
      case 'notSent':
        return this.#handleNotSent(event)
      case 'noResponse':
        this.#fail(event.calls, event.error, event.sending)
        // while a cursor reads, `cursorDone` continues
        return state.phase === 'sending' ? this.#proceed() : undefined
      case 'aborted':
        // until its response arrives, no other request may continue the stream
        state.late = { baton: state.baton }
        state.baton = null
        return
      case 'lateResponse':
        if (!event.isOk) state.baton ??= state.late?.baton ?? null
        state.late = null
        return state.phase === 'closing' ? this.#close() : undefined
      case 'permitQueued':
        this.#restartDeadlines()
        return this.#resume()
      case 'permitGranted':
        state.permit = 'held'
        if (event.hasWaited) this.#restartDeadlines()
        return this.#resume()
      case 'permitFailed':
        state.permit = 'none'
        this.#rejectAll({ type: 'error', error: event.error })
        return this.#resume()
      case 'abort':
        this.#remove(event.call, { type: 'error', error: event.reason })
        return this.#resume()
      case 'stopCursors':
        this.#stopCursors(event.rejection, event.owner)
        return this.#resume()
      case 'cursorHasRun':
        if (state.cursor && needsWriteLock(state.cursor)) this.#recordLock()
        return
      case 'cursorDone':
        state.cursor = null
        return this.#proceed()
      case 'lost':
        this.#lose(event.loss)
        return
      case 'wake':
        return this.#wake()
      case 'close':
        // otherwise, the cursor of a write would first be read to its end
        if (state.cursor?.isReadOnly === false)
          this.#lose({ code: 'STREAM_CLOSED', message: 'closed while rows of a write were read' })
        state.isOpen = false
        this.#stopCursors(ENDED)
        this.#do({ type: 'resolveEnded' })
        return this.#resume()
      case 'clientClosed':
        this.#lose({
          code: state.transaction ? 'TRANSACTION_LOST' : 'STREAM_CLOSED',
          message: 'the client was closed',
        })
        return
      case 'closeEnded':
        state.baton = null
        return this.#finishClose()
    }
  }

  #do(effect: Effect): void {
    this.effects.push(effect)
  }

  // calls and control statements

  #enqueue(call: QueuedCall): void {
    const { state } = this
    const { queueLimit } = this.#client.config
    const rejection: Rejection | null = !state.isOpen
      ? ENDED
      : isReading(state)
        ? CURSOR_IS_OPEN
        : !endsTransaction(call) && state.queue.length >= queueLimit
          ? { type: 'queueFull' }
          : null
    if (rejection) return this.#rejectNow(call, rejection)
    if (call.scope === 'transaction') {
      call.prefix = state.prefix
      state.prefix = []
    }
    state.queue.push(call)
    if (endsTransaction(call) && state.transaction) state.transaction.isEnding = true
    if (state.phase === 'idle') {
      state.phase = 'collecting'
      this.#do({ type: 'flushSoon' })
    }
    // the request of this tick watches the deadline and signal of its calls
    else if (state.phase !== 'collecting') this.#watch(call)
  }

  /** Watches the time limit and signal of a call that waits for another. */
  #watch(call: QueuedCall): void {
    const { state } = this
    // the request that parses its statement has the deadline
    if (call !== state.parsing) state.queueDeadline = Math.min(state.queueDeadline, call.deadline.endsAt)
    this.#do({ type: 'watch', call })
  }

  /** Begins a transaction. Nothing is sent: BEGIN is sent with the first statement. */
  #begin(id: number, statement: ControlStatement): void {
    const { state } = this
    if (!state.isOpen || state.transaction) {
      const message = isInTransaction(state)
        ? 'a transaction is open on this stream; use a savepoint'
        : 'the previous transaction of this stream is still ending'
      this.refusal = state.isOpen ? { type: 'misuse', message } : ENDED
      return
    }
    state.prefix = [...state.prefix, statement]
    state.transaction = {
      id,
      begunAt: this.#client.clock.now(),
      lockedSince: null,
      lockNumber: this.#client.writeLock.acquired,
      hasWarned: false,
      isEnding: false,
    }
    this.#do({ type: 'emit', event: { type: 'transaction:begin', id } })
  }

  /** Whether BEGIN has not been sent yet; if so, the server has no transaction. */
  get #hasPendingBegin(): boolean {
    return this.state.prefix[0]?.kind === 'begin'
  }

  /** Queues the end of the transaction; sends nothing if the server has not begun it. */
  #end(call: EndCall): void {
    const { state } = this
    if (state.isOpen && !isInTransaction(state)) return this.#rejectNow(call, NO_TRANSACTION)
    if (!this.#hasPendingBegin || !state.isOpen) return this.#enqueue(call)
    state.prefix = []
    this.#settleCall(call, { results: [] })
    this.#resume()
  }

  #endSavepoint({ type, statement, savepoint }: Extract<StreamEvent, { savepoint: unknown }>): void {
    const { state } = this
    if (!isInTransaction(state)) return
    // nothing was queued since it was set: a rollback has nothing to undo, and a release cancels it
    if (state.prefix.at(-1)?.sql !== savepoint.sql) state.prefix = [...state.prefix, statement]
    else if (type === 'release') state.prefix = state.prefix.slice(0, -1)
  }

  /** Passes unsent control statements to the first call of a transaction at or after `position`, or to the next one queued. */
  #passPrefix(prefix: readonly ControlStatement[], position = 0): void {
    const { state } = this
    const next = state.queue.slice(position).find(({ scope }) => scope === 'transaction')
    if (next) next.prefix = [...prefix, ...next.prefix]
    else state.prefix = [...prefix, ...state.prefix]
  }

  /** Rejects a queued call; its control statements are sent with the next one. */
  #remove(call: QueuedCall, rejection: Rejection): void {
    const { queue } = this.state
    const position = queue.indexOf(call)
    if (position < 0) return
    queue.splice(position, 1)
    if (call.scope === 'transaction') this.#passPrefix(call.prefix, position)
    this.#reject(call, rejection)
  }

  /** Rejects the queued calls, except a cursor whose control statements are in flight: it is rejected when they are settled. */
  #rejectAll(rejection: Rejection): void {
    const { parsing, queue } = this.state
    for (const call of queue.slice()) if (call !== parsing) this.#remove(call, rejection)
  }

  #stopCursors(rejection: Rejection, owner?: object): void {
    const { cursor, queue } = this.state
    for (const call of queue.slice()) if (isCursor(call, owner)) this.#remove(call, rejection)
    if (cursor && isCursor(cursor, owner)) this.#stopCursor(cursor, false, rejection)
  }

  #stopCursor(call: CursorCall, endsStream: boolean, rejection: Rejection): void {
    this.state.isCursorStopped = true
    this.#do({ type: 'stopCursor', call, endsStream, rejection })
  }

  /** Restarts the time limits of the queued calls, before and after a wait that does not count. */
  #restartDeadlines(): void {
    const now = this.#client.clock.now()
    for (const { deadline } of this.state.queue) deadline.endsAt = now + deadline.timeoutMs
  }

  // the next action

  #resume(): void {
    if (this.state.phase === 'idle') this.#proceed()
  }

  /** Takes the next action when nothing is in flight. */
  #proceed(): void {
    const { state } = this
    state.phase = 'idle'
    // `#settle` and `#handleNotSent` have put back calls that cannot be sent any more
    if (state.loss) this.#rejectAll(ENDED)
    // BEGIN still waits for the permit, so a ROLLBACK that was queued meanwhile has nothing to undo
    if (state.permit === 'queued') this.#skipToRollback()
    this.#removeUndone()
    const [head] = state.queue
    const begins = head?.scope === 'transaction' && head.prefix[0]?.kind === 'begin'
    const endsLocally = begins && endsTransaction(head)
    if (begins && !endsLocally && state.permit !== 'held' && needsWriteLock(head))
      return this.#waitForPermit()
    // the server has not begun the transaction, so other transactions may write
    if (state.permit === 'queued' || (!head && this.#hasPendingBegin)) this.#releasePermit()
    if (!head) {
      if (!state.isOpen) this.#close()
      else if (state.transaction) state.phaseSince = this.#client.clock.now()
    } else if (endsLocally) {
      // the calls between BEGIN and the end were removed, so nothing has to be sent
      this.#take()
      this.#settleCall(head, { results: [] })
      this.#proceed()
    } else if (head.kind === 'cursor') this.#startReading(head)
    else this.#send(this.#take())
  }

  /** Requests the write permit for the transaction at the head of the queue, or goes on waiting for it. */
  #waitForPermit(): void {
    const { state } = this
    if (state.permit === 'none') this.#do({ type: 'acquirePermit' })
    // the permit was not free, and this is the second call, after the event `permitQueued`. The time limits of the calls do not run
    // while they wait for it, so only their signals are watched
    else for (const call of state.queue) this.#do({ type: 'watch', call })
    state.permit = 'queued'
  }

  /** Opens the cursor at the head of the queue, or first sends what must be sent before it. */
  #startReading(head: CursorCall): void {
    const { state } = this
    const mustParse = head.isUnparsed && state.baton !== null && this.#client.server.hasV3
    if (head.prefix.length > 0 || mustParse) return this.#parse(head)
    this.#take()
    state.phase = 'reading'
    state.cursor = head
    state.isCursorStopped = false
    this.#do({ type: 'openCursor', call: head })
  }

  /** Rejects the calls of handles that were rolled back. */
  #removeUndone(): void {
    for (const call of this.state.queue.slice()) {
      const { handleState } = call
      if (handleState && isUndone(handleState))
        this.#remove(call, { type: 'stream', code: 'STREAM_CLOSED', message: endMessage(handleState) })
    }
  }

  /** Rejects the calls before a queued ROLLBACK, if any; for a transaction that the server has not begun. */
  #skipToRollback(): void {
    const { queue } = this.state
    const end = queue.findIndex(({ kind }) => kind === 'rollback')
    for (const call of queue.slice(0, Math.max(0, end))) this.#remove(call, ROLLED_BACK)
  }

  /** Removes the calls of the next request: calls of one transaction that can be coalesced, or a single call. */
  #take(): readonly QueuedCall[] {
    const { queue } = this.state
    const limit = this.#client.server.V2Guard ? MAX_V2_CALLS : Infinity
    let count = 1
    if (canCoalesce(queue[0])) while (count < limit && canCoalesce(queue[count])) count += 1
    const calls = queue.splice(0, count)
    this.#watchQueue()
    return calls
  }

  /** Watches the calls that wait for a request. */
  #watchQueue(): void {
    const { state } = this
    state.queueDeadline = Infinity
    for (const call of state.queue) this.#watch(call)
  }

  /**
   * Sends the control statements of a cursor in a separate request: the cursor may be aborted before it opens. The server also
   * parses the cursor's statement there.
   */
  #parse(head: CursorCall): void {
    const call = head.reader.newParseCall(head)
    head.prefix = []
    head.isUnparsed = false
    this.state.parsing = head
    this.#watchQueue()
    this.#send([call])
  }

  #send(calls: readonly QueuedCall[]): void {
    const { state } = this
    state.phase = 'sending'
    const closes = !state.isOpen && state.queue.length === 0
    this.#do({ type: 'send', calls, closes })
  }

  // responses

  #settle(event: Extract<StreamEvent, { type: 'response' }>): void {
    const { state } = this
    const { calls, settlement, closes } = event
    const { outcomes, loss, prefix, ranNothing } = settlement
    // before the control statements of the calls are removed
    const hasLocked = !ranNothing && calls.some((call, index) => acquiredLock(call, outcomes?.[index]))
    if (outcomes) outcomes.forEach((outcome, index) => this.#settleCall(calls[index] as QueuedCall, outcome))
    else {
      for (const call of calls) {
        call.mustBeAlone = true
        if (!ranNothing) call.prefix = []
      }
      state.queue.unshift(...calls)
    }
    if (loss) this.#lose(loss)
    if (prefix) this.#passPrefix(prefix)
    if (hasLocked) this.#recordLock()
    if (state.baton === null && !closes && state.transaction)
      this.#fail([], new ProtocolError('no baton in the middle of a transaction'), event.sending)
    this.#proceed()
  }

  #settleCall(call: QueuedCall, outcome: CallOutcome): void {
    if (outcome.loss) this.#lose(outcome.loss)
    if (!outcome.results)
      return this.#reject(call, 'error' in outcome ? { type: 'error', error: outcome.error } : ENDED)
    if (endsTransaction(call)) this.#drop(call.kind)
    if (call.kind === 'parse') this.state.parsing = null
    else this.#do({ type: 'resolve', call, results: outcome.results })
  }

  #reject(call: QueuedCall, rejection: Rejection): void {
    const { transaction } = this.state
    if (call.kind === 'parse') {
      this.state.parsing = null
      return this.#remove(call.cursorCall, rejection)
    }
    if (endsTransaction(call)) {
      // rejected, as by a deferred constraint, or not sent: the transaction continues
      if (transaction) transaction.isEnding = false
      // calls queued after it were meant to run outside of the transaction
      this.#rejectAll(NOT_RUN)
    }
    this.#rejectNow(call, rejection)
  }

  #rejectNow(call: QueuedCall, rejection: Rejection): void {
    this.#do({ type: 'reject', call, rejection, isOutdated: isOutdated(this.state, this.#client.writeLock) })
  }

  /**
   * Handles a request that was not sent; the stream is unchanged. If calls were aborted or timed out, rejects those and sends the others;
   * otherwise rejects all of them with `error`.
   */
  #handleNotSent({ calls, error, aborted }: Extract<StreamEvent, { type: 'notSent' }>): void {
    const { state } = this
    // the server has no stream, so no transaction that needs the permit
    if (state.baton === null) this.#releasePermit()
    state.queue.unshift(...calls)
    const now = this.#client.clock.now()
    const rejections = calls.map((call): Rejection | null => {
      const { endsAt, timeoutMs } = call.deadline
      if (aborted.has(call)) return { type: 'error', error: aborted.get(call) }
      return endsAt <= now ? { type: 'timeout', timeoutMs } : null
    })
    const hasCause = rejections.some((rejection) => rejection !== null)
    for (const [index, call] of calls.entries()) {
      const rejection = hasCause ? rejections[index] : ({ type: 'error', error } as const)
      if (rejection) this.#remove(call, rejection)
    }
    this.#proceed()
  }

  /** Handles a request without a usable response: the stream and its transaction are lost. */
  #fail(calls: readonly QueuedCall[], error: unknown, { continuesStream, sentAt }: LastSending): void {
    const { state } = this
    const failure = classifyFailure({
      error,
      continuesStream,
      durationMs: this.#client.clock.now() - sentAt,
      inTransaction: calls.some(({ scope }) => scope === 'transaction') || state.transaction !== null,
      // a COMMIT is always alone in its request
      commits: calls[0]?.kind === 'commit',
      isAborted: calls.some(({ options: { signal } }) => signal?.aborted && signal.reason === error),
    })
    // unless the server has rejected the baton, the stream can still be closed, which releases the write lock; calls of `close` do not
    // wait for that
    if (failure.isUnknownStream) state.baton = null
    else this.#do({ type: 'resolveClose' })
    this.#lose({ code: failure.code, message: failure.message, cause: error })
    for (const call of calls) this.#reject(call, findRejection(call, failure))
  }

  /** Declares the stream and its transaction lost, unless they already are. */
  #lose(loss: Loss): void {
    const { state } = this
    if (state.loss) return
    const { transaction } = state
    const hasLock = transaction !== null && transaction.lockedSince !== null
    state.loss = {
      ...loss,
      elapsedMs: transaction ? Math.round(this.#client.clock.now() - transaction.begunAt) : undefined,
      hasBlocked: hasLock && (this.#client.hasPendingWrites || isOutdated(state, this.#client.writeLock)),
    }
    state.isOpen = false
    // its permit is kept until the stream is closed
    if (transaction) this.#drop('lost')
    this.#rejectAll(ENDED)
    this.#do({ type: 'resolveEnded' })
    if (state.cursor) this.#stopCursor(state.cursor, true, ENDED)
    this.#resume()
  }

  /** Ends the transaction on the client's side. */
  #drop(end: 'commit' | 'rollback' | 'lost'): void {
    const { transaction } = this.state
    this.state.transaction = null
    if (transaction) {
      const { id } = transaction
      this.#do(
        end === 'lost' ? { type: end, id } : { type: 'emit', event: { type: `transaction:${end}`, id } },
      )
    }
    if (end !== 'lost') this.#releasePermit()
  }

  #recordLock(): void {
    const { transaction } = this.state
    if (!transaction || transaction.lockedSince !== null) return
    transaction.lockedSince = Math.floor(this.#client.clock.now())
    transaction.lockNumber = this.#client.writeLock.acquired + 1
    this.#do({ type: 'recordLock' })
  }

  /** Releases the write permit, or stops waiting for it. */
  #releasePermit(): void {
    const { permit } = this.state
    if (permit === 'none') return
    // the wait has ended, and the time limits of the calls begin
    if (permit === 'queued') this.#restartDeadlines()
    this.state.permit = 'none'
    this.#do({ type: 'releasePermit' })
  }

  // the end

  /** Closes the stream on the server, if it may exist there. */
  #close(): void {
    const { state } = this
    if (state.phase !== 'closing') state.phaseSince = this.#client.clock.now()
    state.phase = 'closing'
    if (state.late) return
    if (state.baton === null) this.#finishClose()
    else this.#do({ type: 'sendClose' })
  }

  #finishClose(): void {
    this.state.phase = 'closed'
    this.#drop('rollback')
    this.#do({ type: 'resolveClose' })
  }

  #wake(): void {
    const { state } = this
    const now = this.#client.clock.now()
    if (now < nextWake(state, this.#client.config)) return
    // the server has closed the stream by now, so other writers need not wait for a response that may never arrive
    if (state.phase === 'closing') this.#releasePermit()
    else if (state.phase === 'idle') this.#expire(now)
    else {
      for (const call of state.queue.slice()) {
        const { endsAt, timeoutMs } = call.deadline
        if (endsAt <= now && call !== state.parsing) this.#remove(call, { type: 'timeout', timeoutMs })
      }
      this.#watchQueue()
    }
  }

  /** Announces that the transaction expires, or expires it: it must not block other writers of this client. */
  #expire(now: number): void {
    const { transactionTimeoutMs } = this.#client.config
    const transaction = this.state.transaction as TransactionState
    if (transaction.hasWarned) {
      const message =
        transactionTimeoutMs === Infinity
          ? IDLE_TIMEOUT_MESSAGE
          : `idle when its ${transactionTimeoutMs} ms ran out`
      return this.#lose({ code: 'TRANSACTION_EXPIRED', message })
    }
    transaction.hasWarned = true
    const endsAt = (transaction.lockedSince as number) + lockWindowMs(this.#client.config)
    const remainingMs = Math.max(0, endsAt - now)
    this.#do({ type: 'emit', event: { type: 'transaction:expiring', id: transaction.id, remainingMs } })
  }
}
