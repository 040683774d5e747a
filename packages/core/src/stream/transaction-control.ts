import { StreamError } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { COMMIT, type ControlStatement, ROLLBACK } from '../codec/control.ts'
import type { Http } from '../http/http.ts'
import type { WritePermit } from '../http/write-lock.ts'
import type { CallOptions } from '../options.ts'
import type { QueuedCall } from '../request/queued-call.ts'
import type { MarkLost } from '../request/sql-request.ts'
import { OpenTransaction } from './open-transaction.ts'
import type { StatementQueue } from './statement-queue.ts'

type TransactionEnd = 'commit' | 'rollback'

/** What a transaction needs of its stream. */
export interface TransactionHost {
  readonly isOpen: boolean
  readonly isIdle: boolean
  /** @throws StreamError */
  checkOpen(): void
  /** @throws TypeError while rows are read */
  checkNoCursor(): void
  stopCursors(reason: () => StreamError): void
  /** Queues a call. @param onSettled called before its promise settles */
  enqueue(call: EndCall, onSettled: (isDone: boolean) => void): Promise<unknown>
  /** Ends a wait for the write permit that no call needs. @param reason rejects the calls that need it */
  stopWaiting(reason?: StreamError): void
  markLost: MarkLost
}

type EndCall = Pick<
  QueuedCall,
  'statements' | 'scope' | 'transactionEnd' | 'isReadOnly' | 'options' | 'deadline'
>

/** Begins and ends the transactions of a stream, and holds their write permit. */
export class TransactionControl {
  readonly #http: Http
  readonly #queue: StatementQueue
  readonly #host: TransactionHost
  #transaction: OpenTransaction | null = null
  /** Held, or waited for. It is released when the server has ended the transaction. */
  #permit: WritePermit | null = null

  constructor(http: Http, queue: StatementQueue, host: TransactionHost) {
    this.#http = http
    this.#queue = queue
    this.#host = host
  }

  /** The transaction that was begun; its COMMIT or ROLLBACK may be in flight. */
  get current(): OpenTransaction | null {
    return this.#transaction
  }

  /** Whether a transaction was begun and not ended, as far as the client knows. */
  get isOpen(): boolean {
    return this.#transaction?.ending === null
  }

  /** When other writers may take the lock over, in ms since the epoch; null while no transaction holds it. */
  get expiresAt(): number | null {
    return this.#transaction?.expiresAt ?? null
  }

  get hasPermit(): boolean {
    return this.#permit !== null
  }

  /** Whether a transaction holds the write lock, or the permit to acquire it. */
  get holdsLock(): boolean {
    return this.#transaction !== null && (this.hasPermit || this.expiresAt !== null)
  }

  /** Begins a transaction. Nothing is sent: BEGIN travels with the first statement. */
  begin(statement: ControlStatement): void {
    this.#host.checkOpen()
    if (this.#transaction)
      throw new TypeError(
        this.isOpen
          ? 'a transaction is open on this stream; use a savepoint'
          : 'the previous transaction of this stream is still ending',
      )
    this.#queue.addPrefix(statement)
    const transaction = new OpenTransaction(this.#http, {
      isIdle: () => this.#host.isIdle && this.#transaction === transaction,
      expire: (message) => this.#host.markLost('TRANSACTION_EXPIRED', message),
    })
    this.#transaction = transaction
    // the observer may end it
    transaction.begin()
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError when the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    this.#checkTransaction()
    this.#host.checkNoCursor()
    try {
      await this.#end('commit', options)
    } catch (error) {
      throw withCallerStack(error, [COMMIT])
    }
  }

  /**
   * Rolls back. Never rejects because the transaction no longer exists.
   * @throws the signal's reason; TransportError `TIMEOUT`: aborted while a COMMIT was in flight
   */
  async rollback(options: CallOptions = {}): Promise<void> {
    const transaction = this.#transaction
    // a COMMIT may be refused
    if (transaction?.ending) await this.#settled(transaction.ending, options)
    const host = this.#host
    // to close is to roll back
    if (!transaction || transaction !== this.#transaction || !host.isOpen) return
    const reason = (): StreamError => new StreamError('STREAM_CLOSED', 'the transaction was rolled back')
    host.stopCursors(reason)
    // the server does not know it yet
    host.stopWaiting(reason())
    try {
      await this.#end('rollback', options)
    } catch (error) {
      // lost, refused or cut off: in each case the server rolls back, at the latest when it drops the stream
      host.markLost('TRANSACTION_LOST', 'the rollback failed and the stream was given up', error)
    }
  }

  /** Sets a savepoint; travels with the next statement. */
  savepoint(name: string): void {
    this.#checkTransaction()
    this.#queue.savepoint(name)
  }

  /** Undoes what was done since a savepoint, which stays; travels with the next statement. */
  rollbackTo(name: string): void {
    if (this.isOpen) this.#queue.rollbackTo(name)
  }

  /** Removes a savepoint and keeps what was done since; travels with the next statement. */
  release(name: string): void {
    if (this.isOpen) this.#queue.release(name)
  }

  #checkTransaction(): void {
    if (!this.isOpen && this.#host.isOpen) throw new TypeError('no transaction is open on this stream')
  }

  /** Queues the end of the transaction; sends nothing when the server does not know it. */
  #end(transactionEnd: TransactionEnd, options: CallOptions): Promise<unknown> | undefined {
    this.#host.checkOpen()
    options.signal?.throwIfAborted()
    const transaction = this.#transaction as OpenTransaction
    const deadline = this.#http.deadline(options.timeoutMs)
    if (this.#queue.hasPendingBegin) {
      this.#queue.dropPrefix()
      this.drop(`transaction:${transactionEnd}`)
      this.releasePermit()
      this.#host.stopWaiting()
      return undefined
    }
    const call = {
      statements: [transactionEnd === 'commit' ? COMMIT : ROLLBACK],
      scope: 'transaction',
      transactionEnd,
      isReadOnly: false,
      options: { ...options },
      deadline,
    } as const
    transaction.ending = this.#host.enqueue(call, (isDone) => {
      if (this.#transaction !== transaction) return
      if (isDone) {
        this.drop(`transaction:${transactionEnd}`)
        this.releasePermit()
        return
      }
      // refused, as by a deferred constraint, or not sent: the transaction can be mended or rolled back
      transaction.ending = null
      // was to run after it, by itself
      this.#queue.rejectAll(new StreamError('TRANSACTION_LOST', 'not run: the COMMIT before it failed'))
    })
    return transaction.ending
  }

  /** Waits until a call has settled. @throws the signal's reason; TransportError `TIMEOUT` */
  #settled(call: Promise<unknown>, { timeoutMs, signal }: CallOptions): Promise<void> {
    const waiter = this.#http.lifetime.wait({ deadline: this.#http.deadline(timeoutMs), signal })
    const settle = (): void => waiter.resolve()
    call.then(settle, settle)
    return waiter.promise
  }

  /** The transaction no longer exists on this side. Its permit stays until the server has ended it, too. */
  drop(type: 'transaction:commit' | 'transaction:rollback' | 'transaction:lost', error?: StreamError): void {
    const transaction = this.#transaction
    this.#transaction = null
    transaction?.end(type, error)
  }

  /**
   * Acquires a write permit.
   * @returns null when it is free; else what waits for it, and settles with false when the permit was released meanwhile
   * @throws TransportError
   */
  acquirePermit(): Promise<boolean> | null {
    const permit = this.#http.writeLock.acquirePermit()
    this.#permit = permit
    const isHeld = (): boolean => this.#permit === permit
    return (
      permit.waiter &&
      permit.waiter.promise.then(isHeld, (error: unknown) => {
        if (isHeld()) throw error
        return false
      })
    )
  }

  /** Lets the next writer of this client begin. */
  releasePermit(): void {
    const permit = this.#permit
    this.#permit = null
    permit?.release()
  }
}
