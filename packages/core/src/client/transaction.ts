import { CALL_OPTIONS, checkOptions, describeType } from '@batonsql/options'
import { StreamError, TransportError } from '../base/errors.ts'
import { withSignals } from '../base/join-signals.ts'
import { rejectForeignKeys } from '../codec/statement.ts'
import type { BatchOptions, CallOptions } from '../options.ts'
import { endMessage, type HandleState, isUndone, type Results } from '../request/queued-call.ts'
import { CURSOR_IS_OPEN } from '../stream/rejection.ts'
import type { CallContext, ServerStream } from '../stream/server-stream.ts'
import { hasCursor, isReading, lockExpiresAt } from '../stream/stream-state.ts'
import { SqlExecutor } from './sql-executor.ts'

const HANDLE_ENDED = {
  type: 'stream',
  code: 'STREAM_CLOSED',
  message: 'the handle ended before the rows were read',
} as const

/** Checks that the first argument is a callback. @throws TypeError for anything else, such as a mode */
export function checkCallback(callback: unknown): void {
  if (typeof callback !== 'function')
    throw new TypeError(`expected a callback before the options, not ${describeType(callback)}`)
}

/**
 * A handle: what the callback of a transaction, or of a savepoint inside one, receives. Statements are sent one request at a
 * time; those issued together share a request. The server lets the transaction hold the write lock for 5 s while other writers wait.
 */
export class Transaction extends SqlExecutor {
  readonly #stream: ServerStream
  readonly #parent: Transaction | null
  /** Aborted when the whole transaction is. */
  readonly #signal: AbortSignal | undefined
  /** The running savepoint inside this one. Savepoints run one after the other and delay this handle's statements. */
  #child: Transaction | null = null
  /** Functions that start the calls waiting for the savepoint, in order. */
  readonly #queued = new Set<() => void>()
  readonly #state: HandleState

  /** @internal */
  constructor(stream: ServerStream, parent: Transaction | null, signal: AbortSignal | undefined) {
    // the scope is ignored: `stream.run` runs every statement inside the transaction
    super((statements, _scope, options) => {
      rejectForeignKeys(statements)
      const run = (callOptions: BatchOptions): Promise<Results> =>
        this.#whenFree(callOptions, (context) => stream.run(statements, 'atomic', callOptions, context))
      return signal
        ? withSignals(signal, options.signal, (joined) => run({ ...options, signal: joined }))
        : run(options)
    })
    this.#signal = signal
    this.#stream = stream
    this.#parent = parent
    const kind = parent ? 'savepoint' : 'transaction'
    this.#state = { kind, parent: parent && parent.#state, signal, end: null }
  }

  /** When a waiting writer may take over the write lock, in ms since the epoch; null until it is acquired. */
  get expiresAt(): number | null {
    return lockExpiresAt(this.#stream.state)
  }

  /** Time until `expiresAt` in ms; Infinity until the write lock is acquired. */
  get remainingMs(): number {
    const { clock } = this.#stream.http
    return Math.max(0, (this.expiresAt ?? Infinity) - clock.now())
  }

  /**
   * Calls `run` after the savepoints inside this handle have ended, so that its statements do not become part of them; in the same
   * tick if there are none.
   */
  #whenFree<T>({ timeoutMs, signal }: CallOptions, run: (context: CallContext) => Promise<T>): Promise<T> {
    const context = { deadline: this.#stream.http.deadline(timeoutMs), handleState: this.#state }
    if (this.#child || this.#queued.size > 0) return this.#queueUntilFree(context, signal, run)
    this.#checkOpen()
    return run(context)
  }

  /**
   * Calls `run` once the calls queued earlier have started and the running savepoint has ended.
   * @throws TransportError; the signal's reason; StreamError
   */
  async #queueUntilFree<T>(
    context: CallContext,
    signal: AbortSignal | undefined,
    run: (context: CallContext) => Promise<T>,
  ): Promise<T> {
    const stream = this.#stream
    const { deadline } = context
    // the savepoint may be waiting for the cursor, and the cursor's loop for this call
    this.#checkNoCursor(this)
    signal?.throwIfAborted()
    stream.checkOpen()
    const start = (): void => {
      if (started.isSettled) return
      try {
        stream.checkOpen()
        this.#checkOpen()
        started.resolve({ result: run(context) })
      } catch (error) {
        started.reject(error)
      }
    }
    const started = stream.http.lifetime.wait<{ readonly result: Promise<T> }>({
      deadline,
      signal,
      onTimeout: () =>
        new TransportError(
          'TIMEOUT',
          `a savepoint did not end within ${deadline.timeoutMs} ms (inside its callback, use the callback's argument)`,
          'not_applied',
        ),
      onEnd: () => this.#queued.delete(start),
    })
    this.#queued.add(start)
    void stream.ended.then(start)
    return await (await started.promise).result
  }

  /** Starts the queued calls in order and in one tick, up to the next savepoint. */
  #startQueued(): void {
    for (const start of this.#queued) {
      if (this.#child) return
      start()
    }
  }

  /**
   * Runs a callback in a savepoint: when it throws, its changes are undone and the transaction continues. Takes no extra
   * requests. Inside the callback, use its argument: this handle waits until the callback has finished. If this handle ends
   * first, as when the call is not awaited, the savepoint is undone.
   * @param options `timeoutMs` and `signal` for the wait for a concurrent savepoint
   */
  async savepoint<T>(callback: (tx: Transaction) => Promise<T> | T, options: CallOptions = {}): Promise<T> {
    checkCallback(callback)
    checkOptions(options, CALL_OPTIONS)
    return await this.#whenFree(options, () => {
      this.#checkNoCursor()
      return this.#performSavepoint(new Transaction(this.#stream, this, this.#signal), callback)
    })
  }

  /** Runs the callback of a new handle as a savepoint inside this one. */
  async #performSavepoint<T>(child: Transaction, callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    const stream = this.#stream
    // before the callback runs: its first statement may use this handle
    this.#child = child
    const name = `baton_${child.#depth}`
    stream.savepoint(name)
    try {
      const result = await child.#perform(callback)
      if (this.#child !== child) throw child.#endError()
      return result
    } finally {
      // the request in flight belongs to the savepoint
      if (child.#state.end === 'rolled back') await stream.lastRequest
      // unless this handle has ended, and the savepoint with it
      if (this.#child === child) {
        if (child.#state.end === 'rolled back') stream.rollbackTo(name)
        stream.release(name)
        this.#child = null
        this.#startQueued()
      }
    }
  }

  /** Number of handles that contain this one. */
  get #depth(): number {
    return this.#parent ? this.#parent.#depth + 1 : 0
  }

  /** Runs the callback of this handle, then ends the handle. */
  async #perform<T>(callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    try {
      const result = await this.#untilAborted(callback)
      if (this.#state.end === null && (this.#child || this.#stopCursors()))
        throw new TypeError(
          `callback returned while ${this.#child ? 'a savepoint was running' : 'rows were being read'} (missing await?)`,
        )
      this.#state.end ??= 'committed'
      return result
    } catch (error) {
      this.#undo()
      throw this.#stream.undoneError(error)
    }
  }

  /** Runs the callback of this handle. @throws the reason of the transaction's signal, at once */
  async #untilAborted<T>(callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    const signal = this.#signal
    if (!signal) return await callback(this)
    signal.throwIfAborted()
    // after the client is closed, the calls of the callback reject
    return await this.#stream.http.lifetime.until(async () => await callback(this), {
      signal,
      outlivesClient: true,
    })
  }

  /** Ends this handle and the savepoints inside it: their queued and later calls are rejected. */
  #undo(): void {
    this.#state.end = 'rolled back'
    this.#stopCursors()
    const child = this.#child
    this.#child = null
    if (child) child.#undo()
    this.#startQueued()
  }

  /** Stops the cursors of this handle. @returns whether there were any */
  #stopCursors(): boolean {
    if (!hasCursor(this.#stream.state, this)) return false
    this.#stream.dispatch({ type: 'stopCursors', owner: this, rejection: HANDLE_ENDED })
    return true
  }

  /**
   * Prevents a deadlock, in which a loop over rows awaits a statement queued after the cursor.
   * @param owner only cursors of this handle
   * @throws TypeError while a cursor is open
   */
  #checkNoCursor(owner?: Transaction): void {
    if (isReading(this.#stream.state, owner)) throw new TypeError(CURSOR_IS_OPEN.message)
  }

  /** Rolls back and ends the transaction or savepoint; its callback may still return a value. */
  async rollback(): Promise<void> {
    this.#checkOpen()
    this.#undo()
    // closing rolls back
    if (!this.#parent) await this.#stream.close()
  }

  #endError(): StreamError {
    return new StreamError('STREAM_CLOSED', endMessage(this.#state))
  }

  #checkOpen(): void {
    if (this.#state.end !== null || isUndone(this.#state)) throw this.#endError()
  }

  /** Passes the stream of a transaction to `run` as soon as no savepoint is running. @internal */
  static withStream<T>(
    tx: Transaction,
    options: CallOptions,
    run: (stream: ServerStream, context: CallContext) => Promise<T>,
  ): Promise<T> {
    return tx.#whenFree(options, (context) => run(tx.#stream, context))
  }

  /** Runs a callback as the transaction of a stream. @internal */
  static async run<T>(
    stream: ServerStream,
    callback: (tx: Transaction) => Promise<T> | T,
    signal?: AbortSignal,
  ): Promise<T> {
    const tx = new Transaction(stream, null, signal)
    let result: T
    try {
      result = await tx.#perform(callback)
    } catch (error) {
      // closing rolls back
      const closing = stream.close()
      if (!signal?.aborted) await closing
      throw error
    }
    if (tx.#state.end === 'committed') {
      // in this order and in one tick, so that COMMIT and closing the stream share a request
      const commit = stream.commit({ signal })
      const closing = stream.close()
      try {
        await commit
      } finally {
        await closing
      }
    }
    return result
  }
}
