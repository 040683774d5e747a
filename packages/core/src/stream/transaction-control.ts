import { StreamError } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import {
  COMMIT,
  type ControlStatement,
  type ROLLBACK,
  releaseStatement,
  rollbackToStatement,
  savepointStatement,
} from '../codec/control.ts'
import type { Http } from '../http/http.ts'
import type { Permit } from '../http/limiter.ts'
import type { CallOptions } from '../options.ts'
import type { QueuedCall } from '../request/queued-call.ts'
import { OpenTransaction, type TransactionHost } from './open-transaction.ts'
import type { StatementQueue } from './statement-queue.ts'

/** The parts of the stream that {@link TransactionControl} uses. */
export interface TransactionStream extends TransactionHost {
  readonly isOpen: boolean
  /** @throws StreamError */
  checkOpen(): void
  /** Queues a call. @throws StreamError after the stream was closed or lost; the signal's reason; TypeError while a cursor is open */
  enqueue(call: QueuedCall): void
  /** Continues with the next call, if nothing is in flight. */
  resume(): void
}

/** Begins and ends the transactions of a stream and holds their write permit. `rollback` is a separate function. */
export class TransactionControl {
  readonly #http: Http
  readonly #queue: StatementQueue
  readonly #stream: TransactionStream
  /** The transaction that was begun; its COMMIT or ROLLBACK may be in flight. */
  current: OpenTransaction | null = null
  /** The write permit of the transaction, released after the server has ended the transaction. */
  permit: Permit | null = null
  /** The permit that the queued calls wait for. */
  queuedPermit: Permit | null = null

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

  /** Commits. A transaction without statements sends nothing. @throws StreamError if the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    this.#checkTransaction()
    try {
      await this.end(COMMIT, options)
    } catch (error) {
      throw withCallerStack(error, [COMMIT])
    }
  }

  /** Sets a savepoint; sent with the next statement. */
  savepoint(name: string): void {
    this.#checkTransaction()
    this.#queue.prefix.push(savepointStatement(name))
  }

  /** Undoes the changes made since a savepoint, and keeps the savepoint; sent with the next statement. */
  rollbackTo(name: string): void {
    if (this.isOpen && !this.#hasJustSet(name)) this.#queue.prefix.push(rollbackToStatement(name))
  }

  /** Releases a savepoint and keeps the changes made since; sent with the next statement. */
  release(name: string): void {
    if (!this.isOpen) return
    if (this.#hasJustSet(name)) this.#queue.prefix.pop()
    else this.#queue.prefix.push(releaseStatement(name))
  }

  /** Whether nothing has been queued since a savepoint was set; if so, neither it nor its end has to be sent. */
  #hasJustSet(name: string): boolean {
    return this.#queue.prefix.at(-1)?.sql === savepointStatement(name).sql
  }

  #checkTransaction(): void {
    if (!this.isOpen && this.#stream.isOpen) throw new TypeError('no transaction is open on this stream')
  }

  /** Queues the end of the transaction; sends nothing if the server has not begun it. */
  end(statement: typeof COMMIT | typeof ROLLBACK, options: CallOptions): Promise<unknown> | undefined {
    const { kind } = statement
    const transaction = this.current as OpenTransaction
    const deadline = this.#http.deadline(options.timeoutMs)
    if (this.#queue.hasPendingBegin) {
      this.#stream.checkOpen()
      options.signal?.throwIfAborted()
      this.#queue.prefix = []
      this.drop(`transaction:${kind}`)
      this.#stream.resume()
      return undefined
    }
    let isQueued = false
    const ending = new Promise((resolve, reject) => {
      this.#stream.enqueue({
        statements: [statement],
        scope: 'transaction',
        prefix: [],
        isReadOnly: false,
        options: { ...options },
        deadline,
        transactionEnd: kind,
        resolve: (results) => {
          this.drop(`transaction:${kind}`)
          resolve(results)
        },
        reject: (error) => {
          // rejected, as by a deferred constraint, or not sent: the transaction continues
          transaction.ending = null
          // calls queued after it were meant to run outside of the transaction
          this.#queue.rejectAll(new StreamError('TRANSACTION_LOST', 'not run: the COMMIT before it failed'))
          reject(error)
        },
      })
      isQueued = true
    })
    if (isQueued) transaction.ending = ending
    return ending
  }

  /** Ends the transaction on the client's side. The permit of a lost one is kept until the stream is closed. */
  drop(type: 'transaction:commit' | 'transaction:rollback' | 'transaction:lost', error?: StreamError): void {
    const transaction = this.current
    this.current = null
    transaction?.end(type, error)
    if (!error) this.releasePermit()
  }

  /**
   * Acquires a write permit, or queues for one. Rejects the queued calls if that fails.
   * @returns whether it is held; if not, the stream has been resumed or will be
   */
  acquirePermit(): boolean {
    if (this.queuedPermit) {
      this.#queue.watchAll(true)
      return false
    }
    try {
      const permit = this.#http.writeLock.acquirePermit()
      if (!permit.waiter) {
        this.permit = permit
        return true
      }
      this.queuedPermit = permit
      this.#queue.restartDeadlines()
      void this.#awaitPermit(permit)
    } catch (error) {
      this.#queue.rejectAll(error)
    }
    this.#stream.resume()
    return false
  }

  async #awaitPermit(permit: Permit): Promise<void> {
    try {
      await permit.waiter?.promise
      // released in the meantime
      if (this.queuedPermit !== permit) return
      this.queuedPermit = null
      this.permit = permit
      this.#queue.restartDeadlines()
    } catch (error) {
      if (this.queuedPermit !== permit) return
      this.#queue.rejectAll(error)
    }
    this.#stream.resume()
  }

  /** Releases the write permit to the next writer of this client, or stops waiting for it. */
  releasePermit(): void {
    const permit = this.permit ?? this.queuedPermit
    // the wait has ended, and the time limits of the calls begin
    if (this.queuedPermit) this.#queue.restartDeadlines()
    this.permit = null
    this.queuedPermit = null
    permit?.release()
  }
}
