import type { ArrayRow, ObjectRow, ResultSet } from './codec/result.ts'
import { type InArgs, type InStatement, refuseControl } from './codec/statement.ts'
import { StreamError } from './errors.ts'
import type { BatchOptions, CallOptions, Executor, StatementOptions } from './options.ts'
import type { Stream } from './stream/stream.ts'

/** For cursors: the stream that a transaction runs on, as soon as no savepoint has it. */
export let streamOf: (tx: Transaction, options: CallOptions) => Promise<Stream>

/**
 * A transaction, or a savepoint inside one, for as long as its callback runs. Statements are sent one request at a time;
 * those issued together travel together. The server lets it hold the write slot for 5 s when others wait.
 */
export class Transaction implements Executor {
  readonly #stream: Stream
  readonly #depth: number
  /** Savepoints of this transaction run one after the other, and hold up its own statements meanwhile. */
  #savepoint: Promise<void> | null = null
  #finished: 'committed' | 'rolled back' | null = null

  constructor(stream: Stream, depth = 0) {
    this.#stream = stream
    this.#depth = depth
  }

  /** When others that wait to write may take over, in ms since the epoch; null as long as it has not got the write slot. */
  get expiresAt(): number | null {
    return this.#stream.expiresAt
  }

  /** Time until then in ms; Infinity as long as it has not got the write slot. */
  get remainingMs(): number {
    return this.expiresAt === null ? Infinity : Math.max(0, this.expiresAt - Date.now())
  }

  execute(
    statement: InStatement,
    args: InArgs | undefined,
    options: StatementOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>>
  execute<Row = ObjectRow>(
    statement: InStatement,
    args?: InArgs,
    options?: StatementOptions,
  ): Promise<ResultSet<Row>>
  async execute(
    statement: InStatement,
    args?: InArgs,
    options: StatementOptions = {},
  ): Promise<ResultSet<ObjectRow | ArrayRow>> {
    refuseControl(typeof statement === 'string' ? statement : statement.sql)
    while (this.#savepoint !== null) await this.#waitForSavepoint(options)
    this.#checkOpen()
    return await this.#stream.execute(statement, args, options)
  }

  batch(
    statements: readonly InStatement[],
    options: BatchOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>[]>
  batch<Row = ObjectRow>(
    statements: readonly InStatement[],
    options?: BatchOptions,
  ): Promise<ResultSet<Row>[]>
  async batch(
    statements: readonly InStatement[],
    options: BatchOptions = {},
  ): Promise<ResultSet<ObjectRow | ArrayRow>[]> {
    while (this.#savepoint !== null) await this.#waitForSavepoint(options)
    this.#checkOpen()
    return await this.#stream.batch(statements, options)
  }

  /**
   * Runs a part that can fail by itself: when the callback throws, what it did is undone, and the transaction goes on.
   * Costs no requests of its own. Inside the callback use its own argument; this handle waits until the callback is done.
   * @param options `timeoutMs` and `signal` of the wait for a sibling
   */
  async savepoint<T>(callback: (tx: Transaction) => Promise<T> | T, options: CallOptions = {}): Promise<T> {
    while (this.#savepoint !== null) await this.#waitForSavepoint(options)
    this.#checkOpen()
    let end = (): void => {}
    // before the callback runs: its first statement may be one of this handle
    this.#savepoint = new Promise((resolve) => {
      end = resolve
    })
    try {
      return await this.#runSavepoint(callback)
    } finally {
      this.#savepoint = null
      end()
    }
  }

  async #runSavepoint<T>(callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    const name = `baton_${this.#depth + 1}`
    const inner = new Transaction(this.#stream, this.#depth + 1)
    this.#stream.savepoint(name)
    try {
      const result = await callback(inner)
      inner.#finished ??= 'committed'
      return result
    } catch (error) {
      inner.#finished = 'rolled back'
      throw error
    } finally {
      if (inner.#finished === 'rolled back') this.#stream.rollbackTo(name)
      this.#stream.release(name)
    }
  }

  /** Undoes everything and ends the transaction (or savepoint); its callback may still return a value. */
  async rollback(): Promise<void> {
    this.#checkOpen()
    this.#finished = 'rolled back'
    if (this.#depth === 0) await Promise.all([this.#stream.rollback(), this.#stream.close()])
  }

  static {
    streamOf = async (tx, options) => {
      while (tx.#savepoint !== null) await tx.#waitForSavepoint(options)
      tx.#checkOpen()
      return tx.#stream
    }
  }

  /**
   * Waits for the savepoint that is open, inside which this handle's statements must not land. To be asked again in the same
   * breath in which one goes on: another may have been quicker.
   */
  #waitForSavepoint(options: CallOptions): Promise<void> {
    const what = 'a savepoint (inside its callback use its own argument)'
    return this.#stream.waitFor(this.#savepoint, what, options)
  }

  #checkOpen(): void {
    if (this.#finished !== null)
      throw new StreamError('STREAM_CLOSED', `the transaction was ${this.#finished} already`)
  }

  /** Runs a callback as a transaction on a stream of its own. */
  static async run<T>(stream: Stream, callback: (tx: Transaction) => Promise<T> | T): Promise<T> {
    const tx = new Transaction(stream)
    let result: T
    try {
      result = await callback(tx)
    } catch (error) {
      tx.#finished ??= 'rolled back'
      await Promise.all([stream.rollback(), stream.close()])
      throw error
    }
    if (tx.#finished === null) {
      tx.#finished = 'committed'
      // in this order and in one tick: COMMIT and the stream's end share a request
      const committed = stream.commit()
      await Promise.allSettled([committed, stream.close()])
      await committed
    }
    return result
  }
}
