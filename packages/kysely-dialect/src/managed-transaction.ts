import { type Stream, StreamError, type TransactionMode } from '@batonsql/core'
import type { SavepointCommand } from './query-command.ts'

/** A transaction that Kysely begins and ends. Once it ends, the queries that Kysely still has in its queue are refused. */
export class ManagedTransaction {
  readonly stream: Stream
  /** The server does not enforce it. */
  readonly isReadOnly: boolean
  /** Whether a statement was answered: BEGIN has been sent. */
  hasRun = false
  readonly #ownsStream: boolean
  /** Names of the savepoints, the innermost last. */
  readonly #savepoints: string[] = []
  /** Number of streams of rows that Kysely has not read to the end. */
  #readers = 0
  /** `ending`: its COMMIT or ROLLBACK is in flight, or the COMMIT failed. */
  #status: 'open' | 'ending' | 'ended' = 'open'

  /** Begins it. @param ownsStream whether the stream is closed when the transaction ends */
  constructor(stream: Stream, mode: TransactionMode, ownsStream: boolean) {
    stream.begin(mode)
    this.stream = stream
    this.isReadOnly = mode === 'readonly'
    this.#ownsStream = ownsStream
  }

  /** Whether Kysely has no more queries of it. */
  get isOver(): boolean {
    return this.#status === 'ended' && this.#readers === 0
  }

  /** Whether it can be abandoned for the next one: Kysely does not end a transaction that it knows to be lost. */
  get isLost(): boolean {
    return !this.stream.inTransaction && this.#readers === 0
  }

  /** @throws StreamError when it has ended */
  checkOpen(): void {
    if (this.#status !== 'open')
      throw new StreamError(
        'STREAM_CLOSED',
        'the transaction has ended (missing await, or are its rows still being read?)',
      )
  }

  /**
   * Lets a savepoint command travel with the next statement. @returns false for a name that is not known, which the server must
   * refuse at once: with the next statement its error would end the transaction
   */
  queueSavepoint({ verb, name }: SavepointCommand): boolean {
    const { stream } = this
    if (this.#status !== 'open' || !stream.inTransaction) return false
    const key = foldCase(name)
    const at = this.#savepoints.lastIndexOf(key)
    if (verb === 'savepoint') {
      this.#savepoints.push(key)
      stream.savepoint(name)
      return true
    }
    if (at < 0) return false
    this.#savepoints.length = verb === 'release' ? at : at + 1
    if (verb === 'release') stream.release(name)
    else stream.rollbackTo(name)
    return true
  }

  /** Commits or rolls back. When COMMIT fails, queries are refused until the rollback or the next transaction. */
  async end(verb: 'commit' | 'rollback'): Promise<void> {
    const { stream } = this
    const takesRequest = this.hasRun && stream.inTransaction
    this.#status = 'ending'
    const ended = stream[verb]()
    // in the same tick, to share the request; COMMIT may have been refused already, as it is while rows are read
    const closed = this.#ownsStream && !stream.inTransaction ? stream.close() : undefined
    await Promise.allSettled([ended, closed])
    await ended
    if (!takesRequest || this.#readers > 0) await queueRefused()
    this.#status = 'ended'
  }

  startReading(): void {
    this.#readers += 1
  }

  async stopReading(): Promise<void> {
    if (this.#status !== 'open') await queueRefused()
    this.#readers -= 1
  }
}

/**
 * Waits until what Kysely has queued has been refused: each query follows within microtasks of the one before. A request takes
 * longer.
 */
const queueRefused = (): Promise<void> => new Promise((resolve) => setTimeout(resolve))

/** Folds the case of a name as SQLite does: of ASCII letters only. */
const foldCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
