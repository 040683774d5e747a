import { StreamError } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import {
  COMMIT,
  type ControlStatement,
  ROLLBACK,
  releaseStatement,
  rollbackToStatement,
  savepointStatement,
} from '../codec/control.ts'
import type { Http } from '../http/http.ts'
import type { Place } from '../http/limiter.ts'
import type { CallOptions } from '../options.ts'
import type { QueuedCall } from '../request/queued-call.ts'
import { OpenTransaction, type TransactionHost } from './open-transaction.ts'
import type { StatementQueue } from './statement-queue.ts'

type TransactionEnd = 'commit' | 'rollback'

/** The parts of the stream that {@link TransactionControl} uses. */
export interface TransactionStream extends TransactionHost {
  readonly isOpen: boolean
  /** @throws StreamError */
  checkOpen(): void
  stopCursors(reason: () => StreamError): void
  /** Queues a call. @param onSettled called before its promise settles */
  enqueue(
    call: Omit<QueuedCall, 'resolve' | 'reject'>,
    onSettled: (isDone: boolean) => void,
  ): Promise<unknown>
  /** Stops waiting for the write permit if no call needs it. */
  stopWaiting(): void
}

/** Returns the error of calls that were queued when their transaction was rolled back. */
export const rolledBack = (): StreamError =>
  new StreamError('STREAM_CLOSED', 'the transaction was rolled back')

/** Begins and ends the transactions of a stream and holds their write permit. `rollback` is a separate function. */
export class TransactionControl {
  readonly #http: Http
  readonly #queue: StatementQueue
  readonly #stream: TransactionStream
  /** The transaction that was begun; its COMMIT or ROLLBACK may be in flight. */
  current: OpenTransaction | null = null
  /** Held or queued for; released after the server has ended the transaction. */
  permit: Place | null = null

  constructor(http: Http, queue: StatementQueue, stream: TransactionStream) {
    this.#http = http
    this.#queue = queue
    this.#stream = stream
  }

  /** Whether a transaction was begun and not ended, as far as the client knows. */
  get isOpen(): boolean {
    return this.current?.ending === null
  }

  /** When other writers may take over the write lock, in ms since the epoch; null while no transaction holds it. */
  get expiresAt(): number | null {
    return this.current?.expiresAt ?? null
  }

  /** Whether a transaction holds the write lock, or the permit to acquire it. */
  get holdsLock(): boolean {
    return this.current !== null && (this.permit !== null || this.current.expiresAt !== null)
  }

  /** Begins a transaction. Nothing is sent: BEGIN is sent with the first statement. */
  begin(statement: ControlStatement): void {
    this.#stream.checkOpen()
    if (this.current)
      throw new TypeError(
        this.isOpen
          ? 'a transaction is open on this stream; use a savepoint'
          : 'the previous transaction of this stream is still ending',
      )
    this.#queue.prefix.push(statement)
    this.current = new OpenTransaction(this.#http, this.#stream)
    this.#http.events.emit({ type: 'transaction:begin', id: this.current.id })
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError when the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    this.#checkTransaction()
    try {
      await this.end('commit', options)
    } catch (error) {
      throw withCallerStack(error, [COMMIT])
    }
  }

  /** Sets a savepoint; sent with the next statement. */
  savepoint(name: string): void {
    this.#checkTransaction()
    this.#queue.prefix.push(savepointStatement(name))
  }

  /** Undoes the changes since a savepoint, which remains; sent with the next statement. */
  rollbackTo(name: string): void {
    if (this.isOpen && !this.#hasJustSet(name)) this.#queue.prefix.push(rollbackToStatement(name))
  }

  /** Releases a savepoint and keeps the changes since; sent with the next statement. */
  release(name: string): void {
    if (!this.isOpen) return
    if (this.#hasJustSet(name)) this.#queue.prefix.pop()
    else this.#queue.prefix.push(releaseStatement(name))
  }

  /** Whether nothing has been queued since a savepoint was set, so that neither it nor its end has to be sent. */
  #hasJustSet(name: string): boolean {
    return this.#queue.prefix.at(-1)?.sql === savepointStatement(name).sql
  }

  #checkTransaction(): void {
    if (!this.isOpen && this.#stream.isOpen) throw new TypeError('no transaction is open on this stream')
  }

  /** Queues the end of the transaction; sends nothing if the server has not begun it. */
  end(transactionEnd: TransactionEnd, options: CallOptions): Promise<unknown> | undefined {
    this.#stream.checkOpen()
    options.signal?.throwIfAborted()
    const transaction = this.current as OpenTransaction
    const deadline = this.#http.deadline(options.timeoutMs)
    if (this.#queue.hasPendingBegin) {
      this.#queue.prefix = []
      this.drop(`transaction:${transactionEnd}`)
      this.releasePermit()
      this.#stream.stopWaiting()
      return undefined
    }
    const call = {
      statements: [transactionEnd === 'commit' ? COMMIT : ROLLBACK],
      scope: 'transaction',
      prefix: [],
      isReadOnly: false,
      canCoalesce: false,
      options: { ...options },
      deadline,
      cancelReason: undefined,
      transactionEnd,
    } as const
    transaction.ending = this.#stream.enqueue(call, (isDone) => {
      if (this.current !== transaction) return
      if (isDone) {
        this.drop(`transaction:${transactionEnd}`)
        this.releasePermit()
        return
      }
      // rejected, as by a deferred constraint, or not sent: the transaction continues
      transaction.ending = null
      // calls queued after it were meant to run outside of the transaction
      this.#queue.rejectAll(new StreamError('TRANSACTION_LOST', 'not run: the COMMIT before it failed'))
    })
    return transaction.ending
  }

  /** Ends the transaction on the client's side. Its permit is kept until the server has ended it too. */
  drop(type: 'transaction:commit' | 'transaction:rollback' | 'transaction:lost', error?: StreamError): void {
    const transaction = this.current
    this.current = null
    transaction?.end(type, error)
  }

  /**
   * Acquires a write permit.
   * @returns null if one is free; otherwise a promise of whether it is held, which is false if it was released in the meantime
   * @throws TransportError
   */
  acquirePermit(): Promise<boolean> | null {
    const permit = this.#http.writeLock.acquirePermit()
    this.permit = permit
    const isHeld = (): boolean => this.permit === permit
    return (
      permit.waiter &&
      permit.waiter.promise.then(isHeld, (error: unknown) => {
        if (isHeld()) throw error
        return false
      })
    )
  }

  /** Releases the write permit to the next writer of this client. */
  releasePermit(): void {
    const permit = this.permit
    this.permit = null
    permit?.release()
  }
}
