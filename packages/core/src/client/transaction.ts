import { CALL_OPTIONS, checkOptions, kindOf } from '../base/check-options.ts'
import type { Deadline } from '../base/deadline.ts'
import { StreamError } from '../base/errors.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { CallOptions, StatementOptions } from '../options.ts'
import type { Results } from '../request/queued-call.ts'
import type { HandleCall, ServerStream } from '../stream/server-stream.ts'
import { SqlExecutor } from './sql-executor.ts'

/** For the reading of rows: acts on a transaction's stream, as soon as no savepoint has it. */
export let actOn: <T>(
  tx: Transaction,
  options: CallOptions,
  act: (stream: ServerStream, handle: HandleCall) => Promise<T>,
) => Promise<T>

/** @throws TypeError where something else is given first, such as a mode */
export function checkCallback(callback: unknown): void {
  if (typeof callback !== 'function')
    throw new TypeError(
      `expected a callback, and options such as { mode } behind it, not ${kindOf(callback)}`,
    )
}

/**
 * A transaction, or a savepoint inside one, for as long as its callback runs. Statements are sent one request at a time;
 * those issued together travel together. The server lets it hold the write lock for 5 s when others wait.
 */
export class Transaction extends SqlExecutor {
  readonly #stream: ServerStream
  readonly #parent: Transaction | null
  /** The savepoint inside this one whose callback runs. They run one after the other, and hold up this handle's statements. */
  #child: Transaction | null = null
  /** The last call that waits for its turn; null when none does. Settles when it has acted. */
  #last: Promise<void> | null = null
  #end: 'committed' | 'rolled back' | null = null
  #tellEnded = (): void => {}
  /** Settles when this handle, a savepoint, does not hold up the one around it any more. */
  #ended: Promise<void> | undefined

  /** @internal */
  constructor(stream: ServerStream, parent: Transaction | null = null) {
    super((statements, _, options) => this.#run(statements, options))
    this.#stream = stream
    this.#parent = parent
    if (!parent) return
    this.#ended = new Promise((resolve) => {
      this.#tellEnded = resolve
    })
  }

  /** When others that wait to write may take over, in ms since the epoch; null as long as it has not got the write lock. */
  get expiresAt(): number | null {
    return this.#stream.transaction.expiresAt
  }

  /** Time until then in ms; Infinity as long as it has not got the write lock. */
  get remainingMs(): number {
    const { clock } = this.#stream.http
    return Math.max(0, (this.expiresAt ?? Infinity) - clock.now())
  }

  /** What is sent was written when the call was made, whatever it waits for. */
  #run(statements: readonly EncodedStatement[], options: StatementOptions): Promise<Results> {
    const run = (deadline: Deadline): Promise<Results> =>
      this.#stream.run(statements, 'atomic', options, { deadline, cancelReason: this.#cancelReason })
    return this.#whenFree(options, run)
  }

  /** Why what is queued must not run any more. */
  readonly #cancelReason = (): Error | null => (this.#isUndone ? this.#endError() : null)

  /**
   * Waits for savepoints inside this one, in which this handle's statements must not land, and acts in the same tick in which
   * there is none.
   */
  #whenFree<T>({ timeoutMs, signal }: CallOptions, act: (deadline: Deadline) => Promise<T>): Promise<T> {
    const deadline = this.#stream.http.deadline(timeoutMs)
    if (this.#child || this.#last) return this.#actInTurn(deadline, signal, act)
    this.#checkOpen()
    return act(deadline)
  }

  /** Waits behind the calls that wait, and for the savepoint that is running. */
  async #actInTurn<T>(
    deadline: Deadline,
    signal: AbortSignal | undefined,
    act: (deadline: Deadline) => Promise<T>,
  ): Promise<T> {
    const what = 'a savepoint (inside its callback use its own argument)'
    const before = this.#last
    let letNext = (): void => {}
    const last = new Promise<void>((resolve) => {
      letNext = () => {
        if (this.#last === last) this.#last = null
        resolve()
      }
    })
    this.#last = last
    let acted: Promise<T>
    try {
      // the savepoint may wait for the rows, and their loop for this call
      this.#stream.checkNoCursor(this)
      if (before) await this.#stream.waitFor(before, what, deadline, signal)
      while (this.#child)
        await this.#stream.waitFor(this.#child.#ended as Promise<void>, what, deadline, signal)
      this.#checkOpen()
      acted = act(deadline)
    } catch (error) {
      // those behind it still wait for those before it
      void (before ?? Promise.resolve()).then(letNext)
      throw error
    }
    letNext()
    return await acted
  }

  /**
   * Runs a part that can fail by itself: when the callback throws, what it did is undone, and the transaction goes on.
   * Costs no requests of its own. Inside the callback use its own argument; this handle waits until the callback is done.
   * When this handle ends before the callback does, as when it is not awaited, the savepoint ends with it, and is undone.
   * @param options `timeoutMs` and `signal` of the wait for a savepoint beside it
   */
  async savepoint<T>(callback: (tx: Transaction) => Promise<T> | T, options: CallOptions = {}): Promise<T> {
    checkCallback(callback)
    checkOptions(options, CALL_OPTIONS)
    return await this.#whenFree(options, () => {
      this.#stream.checkNoCursor()
      return new Transaction(this.#stream, this).#performInside(this, callback)
    })
  }

  /** Runs the callback of this handle as a savepoint of another. */
  async #performInside<T>(parent: Transaction, callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    const stream = this.#stream
    // before the callback runs: its first statement may be one of this handle
    parent.#child = this
    const name = `baton_${this.#depth}`
    stream.transaction.savepoint(name)
    try {
      const result = await this.#perform(callback)
      if (parent.#child !== this) throw this.#endError()
      return result
    } finally {
      // what is under way belongs to it
      if (this.#end === 'rolled back') await stream.answered
      // ended from outside, it has nothing to do with the stream any more
      if (parent.#child === this) {
        if (this.#end === 'rolled back') stream.transaction.rollbackTo(name)
        stream.transaction.release(name)
        parent.#child = null
        this.#tellEnded()
      }
    }
  }

  get #depth(): number {
    return this.#parent ? this.#parent.#depth + 1 : 0
  }

  /** Runs the callback of this handle, which is over after it. */
  async #perform<T>(callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    try {
      const result = await callback(this)
      if (this.#end === null && (this.#child || this.#stopCursors()))
        throw new TypeError(
          `callback returned while ${this.#child ? 'a savepoint was running' : 'rows were being read'} (missing await?)`,
        )
      this.#end ??= 'committed'
      return result
    } catch (error) {
      this.#undo()
      throw error
    }
  }

  /** Ends this handle and all inside it: what they have queued is refused, and what they do from now on. */
  #undo(): void {
    this.#end = 'rolled back'
    this.#stopCursors()
    const child = this.#child
    this.#child = null
    if (child === null) return
    child.#undo()
    child.#tellEnded()
  }

  #stopCursors(): boolean {
    const reason = (): StreamError =>
      new StreamError('STREAM_CLOSED', 'the handle ended before the rows were read')
    return this.#stream.stopCursors(reason, this)
  }

  /** Undoes everything and ends the transaction (or savepoint); its callback may still return a value. */
  async rollback(): Promise<void> {
    this.#checkOpen()
    this.#undo()
    if (this.#parent === null) await this.#close()
  }

  /** Closes the stream, which rolls back what is not committed. */
  async #close(): Promise<void> {
    this.#stream.stopWaiting(new StreamError('STREAM_CLOSED', 'the transaction was rolled back'))
    await this.#stream.close()
  }

  static {
    actOn = (tx, options, act) =>
      tx.#whenFree(options, (deadline) => act(tx.#stream, { deadline, cancelReason: tx.#cancelReason }))
  }

  /** Whether what it did is undone, by itself or by a handle around it. */
  get #isUndone(): boolean {
    return this.#end === 'rolled back' || (this.#parent !== null && this.#parent.#isUndone)
  }

  #endError(): StreamError {
    const what = this.#parent === null ? 'transaction' : 'savepoint'
    return new StreamError('STREAM_CLOSED', `the ${what} was ${this.#end ?? 'rolled back'} already`)
  }

  #checkOpen(): void {
    if (this.#end !== null || this.#isUndone) throw this.#endError()
  }

  /** Runs a callback as a transaction on a stream of its own. @internal */
  static async run<T>(stream: ServerStream, callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    const tx = new Transaction(stream)
    let result: T
    try {
      result = await tx.#perform(callback)
    } catch (error) {
      await tx.#close()
      throw error
    }
    if (tx.#end === 'committed') {
      // in this order and in one tick: COMMIT and the stream's end share a request
      const committed = stream.transaction.commit()
      const closed = stream.close()
      try {
        await committed
      } finally {
        await closed
      }
    }
    return result
  }
}
