import { StreamError } from '@batonsql/core'
import { inNextTurn, type Stream } from '@batonsql/core/adapter'
import type { SavepointCommand } from './query-command.ts'

/** A transaction on a connection. When it ends, its queries that are still in Kysely's queue are rejected. */
export class ConnectionTransaction {
  readonly stream: Stream
  /** Whether Kysely begins and ends it; otherwise it was begun by a raw BEGIN. */
  readonly isManaged: boolean
  /** Whether query builders that write are rejected. Neither raw SQL nor the server is checked. */
  readonly isReadOnly: boolean
  /** Whether a statement has received a response, which proves that BEGIN was sent. */
  hasRun = false
  readonly #ownsStream: boolean
  /** Names of the savepoints, the innermost last. */
  readonly #savepoints: string[] = []
  /** Number of streams of rows that Kysely has not read to the end. */
  #readers = 0
  /** `ending`: its COMMIT or ROLLBACK is in flight, or the COMMIT failed. */
  #status: 'open' | 'ending' | 'ended' = 'open'

  /**
   * Begins the transaction.
   * @param begin a mode for a managed transaction, or a BEGIN statement
   * @param ownsStream whether it closes the stream when it ends
   */
  constructor(stream: Stream, begin: string, isManaged: boolean, ownsStream: boolean) {
    stream.begin(begin)
    this.stream = stream
    this.isManaged = isManaged
    this.isReadOnly = begin === 'readonly'
    this.#ownsStream = ownsStream
  }

  /** Whether the transaction has ended, and Kysely has no more queries for it. */
  get isFinished(): boolean {
    return this.#status === 'ended' && this.#readers === 0
  }

  /** Whether the next transaction may replace it: it has ended, or was lost. */
  get isReplaceable(): boolean {
    return !this.stream.inTransaction && this.#readers === 0
  }

  /** @throws StreamError if it has ended */
  checkOpen(): void {
    if (this.#status !== 'open')
      throw new StreamError(
        'STREAM_CLOSED',
        'the transaction has ended (missing await, or are its rows still being read?)',
      )
  }

  /**
   * Queues a savepoint command, which is sent with the next statement.
   * @returns false for an unknown name, which the caller must send at once: sent with the next statement, its error would end the
   * transaction
   */
  queueSavepoint({ verb, name }: SavepointCommand): boolean {
    const { stream } = this
    if (this.#status !== 'open' || !stream.inTransaction) return false
    const key = foldCase(name)
    const index = this.#savepoints.lastIndexOf(key)
    if (verb === 'savepoint') {
      this.#savepoints.push(key)
      stream.savepoint(name)
      return true
    }
    if (index < 0) return false
    this.#savepoints.length = verb === 'release' ? index : index + 1
    if (verb === 'release') stream.release(name)
    else stream.rollbackTo(name)
    return true
  }

  /**
   * Commits or rolls back. When COMMIT fails, queries are rejected until the rollback or the next transaction.
   * @param send sends COMMIT or ROLLBACK; must call the stream synchronously
   */
  async end<T>(send: () => Promise<T>): Promise<T> {
    const { stream } = this
    const takesRequest = this.hasRun && stream.inTransaction
    const endResult = send()
    // the end was rejected before it was sent, as COMMIT is while rows are being read
    if (stream.inTransaction) return await endResult
    this.#status = 'ending'
    // in the same tick, so that both share a request
    const closing = this.#ownsStream ? stream.close() : undefined
    await Promise.allSettled([endResult, closing])
    const result = await endResult
    if (!takesRequest || this.#readers > 0) await waitForQueuedQueries()
    this.#status = 'ended'
    return result
  }

  startReading(): void {
    this.#readers += 1
  }

  async stopReading(): Promise<void> {
    if (this.#status !== 'open') await waitForQueuedQueries()
    this.#readers -= 1
  }
}

/**
 * Waits for one turn of the event loop, in which the queries that Kysely has queued arrive and are rejected, because each follows the
 * previous one within microtasks. A request takes at least as long.
 */
const waitForQueuedQueries = (): Promise<void> => new Promise(inNextTurn)

/** Folds the case of a name as SQLite does: ASCII letters only. */
const foldCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
