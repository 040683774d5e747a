import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { parseBegin, ROLLBACK, type TransactionMode } from '../codec/control.ts'
import { type ObjectRow, ResultSet } from '../codec/result.ts'
import {
  type EncodedStatement,
  encodeBatch,
  type InStatement,
  rejectForeignKeys,
  rejectSavepoint,
} from '../codec/statement.ts'
import { type CallOptions, STATEMENT_OPTIONS, type StatementOptions } from '../options.ts'
import type { Results } from '../request/queued-call.ts'
import { checkControl, isControl } from '../sql/statement-kind.ts'
import { ROLLED_BACK } from '../stream/rejection.ts'
import { ServerStream } from '../stream/server-stream.ts'
import { isInTransaction, lockExpiresAt } from '../stream/stream-state.ts'
import { type Client, getHttp } from './client.ts'
import { SqlExecutor } from './sql-executor.ts'

/** Opens a stream, for adapters. Sends nothing; close it when you are done. */
export const openStream = (db: Client): Stream => new Stream(new ServerStream(getHttp(db)))

// not a static block of the class, which bundles without streams could not omit
const streams = new WeakMap<Stream, ServerStream>()

export const getServerStream = (stream: Stream): ServerStream => streams.get(stream) as ServerStream

/**
 * A connection that the server keeps between requests. Statements issued while a request is in flight are sent together in
 * the next one. The server closes a stream after 10 s without a request, and a transaction on it may lose the write lock
 * after 5 s; later calls reject with a StreamError.
 *
 * For adapters; applications should use `client.transaction()`.
 */
export class Stream extends SqlExecutor implements AsyncDisposable {
  readonly #stream: ServerStream

  /** @internal */
  constructor(stream: ServerStream) {
    super(
      (statements, scope, options) => {
        if (scope === 'atomic' || this.inTransaction) rejectForeignKeys(statements)
        return scope === 'autocommit'
          ? this.#execute(statements, options)
          : stream.run(statements, scope, options)
      },
      undefined,
      () => {},
    )
    this.#stream = stream
    streams.set(this, stream)
  }

  /** Whether a transaction was begun and not ended, as far as the client knows. */
  get inTransaction(): boolean {
    return isInTransaction(this.#stream.state)
  }

  /** Whether statements can still be run: neither closed nor lost. */
  get isOpen(): boolean {
    return this.#stream.state.isOpen
  }

  /** When a waiting writer may take over the write lock, in ms since the epoch; null while no transaction holds it. */
  get expiresAt(): number | null {
    return lockExpiresAt(this.#stream.state)
  }

  /**
   * Runs a statement. BEGIN, COMMIT and ROLLBACK have the same effect as the methods of the same names.
   * @throws TypeError for SAVEPOINT outside of a transaction; SyntaxError for text after COMMIT
   */
  async #execute(statements: EncodedStatement[], options: StatementOptions): Promise<Results> {
    const { signal, timeoutMs } = options
    const [statement] = statements as [EncodedStatement]
    const { kind, sql } = statement
    if (this.isOpen && !this.inTransaction) rejectSavepoint(statement)
    if (isControl(kind)) checkControl(sql)
    if (kind === 'begin') this.begin(sql)
    else if (kind === 'commit') await this.commit({ signal, timeoutMs })
    else if (kind === 'rollback') await this.rollback({ signal, timeoutMs })
    else return await this.#stream.run(statements, 'autocommit', options)
    return [new ResultSet<ObjectRow>({ cols: [], rows: [], affected_row_count: 0 }, [])]
  }

  /**
   * Runs statements outside a transaction in one request, each taking effect separately; stops at the first failure. If the response
   * is too large, the stream is lost, unless the client has already seen that the server evaluates conditions.
   * @throws SqlError with the earlier `results`, whose changes are kept, and with `statementIndex`, which is null if the response is too
   * large
   */
  async chain(statements: readonly InStatement[], options: StatementOptions = {}): Promise<ResultSet[]> {
    checkOptions(options, STATEMENT_OPTIONS)
    if (this.inTransaction) throw new TypeError('a transaction is open on this stream')
    const encoded = encodeBatch(statements)
    for (const statement of encoded) rejectSavepoint(statement)
    try {
      return (await this.#stream.run(encoded, 'chain', { ...options })) as ResultSet[]
    } catch (error) {
      throw withCallerStack(error, encoded)
    }
  }

  /**
   * Begins a transaction. Nothing is sent: BEGIN is sent with the first statement.
   * @param mode a mode, or a BEGIN statement
   * @throws SyntaxError for text after BEGIN
   */
  begin(mode?: TransactionMode | (string & {})): void {
    this.#stream.begin(parseBegin(mode))
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError if the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL_OPTIONS)
    await this.#stream.commit(options)
  }

  /**
   * Rolls back. Does not reject if the transaction no longer exists.
   * @throws while a COMMIT is in flight, the signal's reason, or TransportError `TIMEOUT` or `CLOSED`
   */
  async rollback(options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL_OPTIONS)
    const stream = this.#stream
    // the live state of the stream, which changes during the wait below
    const { http, state } = stream
    const { transaction } = state
    if (transaction?.isEnding) {
      // if the COMMIT in flight fails, there is still a transaction to roll back
      const settled = Promise.resolve(stream.ending).catch(() => {})
      await http.lifetime.until(() => settled, {
        deadline: http.deadline(options.timeoutMs),
        signal: options.signal,
      })
    }
    // closing rolls back
    if (!transaction || transaction !== state.transaction || !state.isOpen) return
    stream.dispatch({ type: 'stopCursors', owner: undefined, rejection: ROLLED_BACK })
    try {
      await stream.end(ROLLBACK, options)
    } catch (cause) {
      // whatever the reason, the server rolls back, at the latest when it drops the stream
      const message = 'the rollback failed; the stream was closed'
      stream.dispatch({ type: 'lost', loss: { code: 'TRANSACTION_LOST', message, cause } })
    }
  }

  /** Sets a savepoint; sent with the next statement. */
  savepoint(name: string): void {
    this.#stream.savepoint(name)
  }

  /** Undoes the changes made since a savepoint, and keeps the savepoint; sent with the next statement. */
  rollbackTo(name: string): void {
    this.#stream.rollbackTo(name)
  }

  /** Releases a savepoint and keeps the changes made since; sent with the next statement. */
  release(name: string): void {
    this.#stream.release(name)
  }

  /** Closes the stream after its queued calls; an open transaction is rolled back. Never rejects. */
  close(): Promise<void> {
    return this.#stream.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
