import { type DatabaseError, SqlError, withOutcome } from '../base/errors.ts'
import { EXPIRING_FRACTION, STREAM_IDLE_MS, TRANSACTION_WINDOW_MS } from '../base/limits.ts'
import type { Http } from '../http/http.ts'
import { lockHint } from '../http/write-lock.ts'
import { type ClientEvent, nextId } from '../observe/events.ts'
import type { MarkLost } from '../request/sql-request.ts'

/** The parts of a stream that the timers of its transaction need. */
export interface TransactionHost {
  /** Whether nothing is in flight; only then can the transaction time out. */
  readonly isIdle: boolean
  readonly markLost: MarkLost
}

/** Tracks the time of an open transaction and emits its events. */
export class OpenTransaction {
  /** Id of the transaction in events. */
  readonly id = nextId()
  /** The COMMIT or ROLLBACK in flight; null while statements may follow. */
  ending: Promise<unknown> | null = null
  readonly #http: Http
  readonly #host: TransactionHost
  readonly #begunAt: number
  /** When the request that acquired the write lock got its response; time spent in the queue does not count. */
  #lockedSince: number | null = null
  /** How often this client had acquired the write lock by then; before, when this transaction began. */
  #lockNumber: number
  /** When the stream last became idle. */
  #idleSince = 0
  #hasWarned = false
  /** Errors of its statements. */
  readonly #failures = new WeakSet<Error>()
  /**
   * Cancels the timer; null when none is set. One timer outlives several requests: setting one for each statement would cost more
   * than encoding the statement.
   */
  #cancelTimer: (() => void) | null = null

  constructor(http: Http, host: TransactionHost) {
    this.#http = http
    this.#host = host
    this.#begunAt = http.clock.now()
    this.#lockNumber = http.writeLock.acquired
  }

  get elapsedMs(): number {
    return Math.round(this.#http.clock.now() - this.#begunAt)
  }

  /** When a waiting writer may take over the write lock, in ms since the epoch; null before it was acquired. */
  get expiresAt(): number | null {
    return this.#lockedSince && this.#lockedSince + TRANSACTION_WINDOW_MS
  }

  recordLock(): void {
    if (this.#lockedSince !== null) return
    this.#lockedSince = Math.floor(this.#http.clock.now())
    this.#lockNumber = this.#http.writeLock.acquired += 1
  }

  /** Returns a hint for the loss of the write lock, if another call of this client waited for it or has acquired it. */
  get lockHint(): string {
    const { hasPendingWrites, writeLock } = this.#http
    const hasWaited = hasPendingWrites || writeLock.acquired > this.#lockNumber
    return this.#lockedSince !== null && hasWaited ? lockHint('call of this client waited for') : ''
  }

  /** Cancels the timer. */
  stopTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
  }

  /** Records the error of a statement, and adds a hint to it if another call of this client has written since the snapshot. */
  addFailure(error: unknown): void {
    if (!(error instanceof Error) || this.#failures.has(error)) return
    const isBusy = error instanceof SqlError && error.code === 'SQLITE_BUSY'
    if (isBusy && this.#http.writeLock.acquired > this.#lockNumber)
      error.message += lockHint('call of this client acquired')
    this.#failures.add(error)
  }

  /** Returns the error of the whole transaction, or of a savepoint, that was undone because of an error. */
  undoneError(error: unknown): unknown {
    return error instanceof Error && this.#failures.has(error) ? withOutcome(error, 'not_applied') : error
  }

  /** Ends the transaction on the client's side. */
  end(type: 'transaction:commit' | 'transaction:rollback' | 'transaction:lost', error?: DatabaseError): void {
    this.stopTimer()
    // no timer is set and no hint is given after this
    this.#lockedSince = null
    this.#lockNumber = Infinity
    this.#http.events.emit({ type, id: this.id, ...(error && { error }) } as ClientEvent)
  }

  /**
   * Called whenever the stream becomes idle. A statement that follows at once is sent before the timer fires, even if the timer is
   * overdue.
   */
  startTimer(): void {
    this.#idleSince = this.#http.clock.now()
    this.#setTimer()
  }

  #setTimer(): void {
    const since = this.#lockedSince
    if (since === null || this.#cancelTimer) return
    const { transactionTimeoutMs } = this.#http.config
    // no other writer can take over the write lock during this time
    const windowMs = Math.min(transactionTimeoutMs, TRANSACTION_WINDOW_MS)
    if (!this.#hasWarned)
      this.#wakeAt(since + windowMs * EXPIRING_FRACTION, () => this.#warn(since + windowMs))
    else if (transactionTimeoutMs !== Infinity)
      this.#wakeAt(since + transactionTimeoutMs, () => this.#timeOut())
    else this.#wakeAt(this.#idleSince + STREAM_IDLE_MS, () => this.#checkIdle())
  }

  #warn(end: number): void {
    this.#hasWarned = true
    const remainingMs = Math.max(0, end - this.#http.clock.now())
    this.#http.events.emit({ type: 'transaction:expiring', id: this.id, remainingMs })
    this.#setTimer()
  }

  /** Expires the transaction when the server has closed the idle stream: it must not block other writers of this client. */
  #checkIdle(): void {
    const { clock } = this.#http
    if (clock.now() - this.#idleSince < STREAM_IDLE_MS)
      this.#wakeAt(this.#idleSince + STREAM_IDLE_MS, () => this.#checkIdle())
    else this.#expire(`the server closed the stream after ${STREAM_IDLE_MS / 1_000} s without a request`)
  }

  #wakeAt(time: number, callback: () => void): void {
    const { clock } = this.#http
    this.#cancelTimer = clock.after(Math.max(0, time - clock.now()), () => {
      this.#cancelTimer = null
      if (this.#host.isIdle) callback()
    })
  }

  #timeOut(): void {
    this.#expire(`idle when its ${this.#http.config.transactionTimeoutMs} ms ran out`)
  }

  #expire(message: string): void {
    this.#host.markLost('TRANSACTION_EXPIRED', message)
  }
}
