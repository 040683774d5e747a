import {
  type Client,
  type Executor,
  type InStatement,
  type InValue,
  readRows,
  StreamError,
} from '@batonsql/core'
import { openStream, type Stream, statementKind } from '@batonsql/core/adapter'
import { type CompiledQuery, type DatabaseConnection, type QueryResult, RawNode } from 'kysely'
import { rejectCascadingDrop } from './cascading-drop.ts'
import { ConnectionTransaction } from './connection-transaction.ts'
import { withKeptStatementsHint } from './kept-statements-hint.ts'
import { withColumn } from './parameter-error.ts'
import { type BatchCommand, type DatabaseCommand, getCommand } from './query-command.ts'
import { mayBeReadOnly, queryResult } from './query-result.ts'
import { RowLoop } from './row-loop.ts'

interface QueryOptions {
  readonly signal?: AbortSignal | undefined
}

/**
 * A connection without a pool: outside of transactions, it sends each query in its own request until a statement such as `pragma … =`
 * needs a session. Kysely replaces the methods of a connection to log queries, and calls them one at a time.
 */
export class BatonConnection implements DatabaseConnection {
  readonly #client: Client
  /** Opened by the first statement that needs a session. Kept when it is lost, so that no query runs without its settings. */
  #session: Stream | null = null
  /** The open transaction. Kept when it is lost, so that none of its queries runs outside of it. */
  #transaction: ConnectionTransaction | null = null
  #isReleased = false
  #abortController: AbortController | null = null
  /** Whether migrations run without a transaction, and whether one has changed something. */
  #migrating: 'unchanged' | 'changed' | null = null
  /**
   * The reads or writes of an optimistic transaction whose queries it runs.
   * @internal
   */
  attempt: Executor | null = null
  /**
   * The loop that reads the rows of a stream, if any.
   * @internal
   */
  rowLoop: RowLoop | null = null

  constructor(client: Client) {
    this.#client = client
  }

  /**
   * The client, for an optimistic transaction.
   * @throws TypeError on a connection with its own session or transaction
   * @internal
   */
  get idleClient(): Client {
    if (this.#transaction || this.#session || this.attempt)
      throw new TypeError('optimistic() needs a Kysely instance without a transaction or settings of its own')
    return this.#client
  }

  /** Whether there is a transaction that can still be rolled back. */
  get inTransaction(): boolean {
    return this.#transaction?.stream.inTransaction ?? false
  }

  async executeQuery<R>(query: CompiledQuery, options?: QueryOptions): Promise<QueryResult<R>> {
    const command = getCommand(query)
    if (command?.kind === 'prefetched') return (await command.result) as QueryResult<R>
    // Kysely's own signal must not abort the request, unless Kysely calls `cancelQuery()`: a transaction would end with it
    this.#abortController = options?.signal ? new AbortController() : null
    return (await (command ? this.#runCommand(command, query) : this.#execute(query))) as QueryResult<R>
  }

  /**
   * Reads rows as they arrive, in chunks of `chunkSize`, no faster than they are consumed; leaving the loop stops the query. Returns
   * when the signal is aborted, because Kysely itself throws its reason.
   */
  async *streamQuery<R>(
    query: CompiledQuery,
    chunkSize: number,
    options?: QueryOptions,
  ): AsyncIterableIterator<QueryResult<R>> {
    if (!Number.isInteger(chunkSize) || chunkSize < 1)
      throw new RangeError('`chunkSize` must be a positive integer')
    const transaction = this.#accept(query)
    if (this.attempt) throw new TypeError('rows cannot be streamed in an optimistic transaction')
    const source = readRows<R>(this.#executor, toStatement(query), undefined, { signal: options?.signal })
    transaction?.startReading()
    const loop = new RowLoop(this.#client.requestTimeoutMs)
    this.rowLoop = loop
    let rows: R[] = []
    try {
      for await (const row of source) {
        if (rows.push(row) < chunkSize) continue
        loop.startBody()
        yield { rows }
        loop.endBody()
        rows = []
      }
      loop.startBody()
      yield { rows }
    } catch (error) {
      if (options?.signal?.aborted) return
      throw error
    } finally {
      loop.endBody()
      this.rowLoop = null
      void transaction?.stopReading()
    }
  }

  /** Aborts the request in flight; a transaction ends with it. */
  async cancelQuery(): Promise<void> {
    this.#abortController?.abort()
  }

  async killSession(): Promise<void> {
    this.#abortController?.abort()
    await this.release()
  }

  /**
   * Called when Kysely's Migrator begins and ends to run migrations on this connection.
   * @internal
   */
  setMigrating(isMigrating: boolean): void {
    this.#migrating = isMigrating ? 'unchanged' : null
  }

  /** Closes the streams, after which all queries are rejected. Never rejects. */
  async release(): Promise<void> {
    this.#isReleased = true
    await this.#transaction?.stream.close()
    await this.#session?.close()
  }

  /**
   * Ends a transaction that was lost, so that the connection can be used again. Never rejects.
   * @internal
   */
  async leaveTransaction(): Promise<void> {
    await this.#end('rollback')
  }

  async #runCommand(command: DatabaseCommand, query: CompiledQuery): Promise<QueryResult<unknown>> {
    if (command.kind === 'batch') return await this.#executeBatch(command)
    if (command.kind === 'begin') this.#begin(command.mode, true)
    else if (command.kind === 'end') await this.#end(command.verb)
    else if (!this.#transaction?.queueSavepoint(command)) return await this.#execute(query)
    return { rows: [] }
  }

  #begin(begin: string, isManaged: boolean): void {
    if (this.attempt) throw new TypeError('an optimistic transaction has no transactions inside it')
    if (this.#transaction?.isReplaceable) this.#transaction = null
    this.#checkUsable()
    const stream = this.#transaction?.stream ?? this.#session ?? openStream(this.#client)
    this.#transaction = new ConnectionTransaction(stream, begin, isManaged, stream !== this.#session)
  }

  async #end(verb: 'commit' | 'rollback'): Promise<void> {
    const transaction = this.#transaction
    await transaction?.end(() => transaction.stream[verb]())
  }

  async #execute(query: CompiledQuery): Promise<QueryResult<unknown>> {
    const kind = RawNode.is(query.query) ? statementKind(query.sql) : 'other'
    if (kind === 'begin' && !this.attempt) {
      this.#begin(query.sql, false)
      return { rows: [] }
    }
    const transaction = this.#accept(query)
    if (kind === 'session' && transaction && /\bforeign_keys\b/i.test(query.sql))
      throw new TypeError(FOREIGN_KEYS_MESSAGE)
    if (kind === 'session' && !transaction && !this.attempt) this.#session ??= openStream(this.#client)
    const isEnd = transaction !== null && (kind === 'commit' || kind === 'rollback')
    if (isEnd && transaction.isManaged) throw new TypeError(MANAGED_MESSAGE)
    const executor: Executor = this.attempt ?? this.#executor
    if (this.#migrating) await rejectCascadingDrop(query.sql, executor)
    const send = () =>
      executor.execute(toStatement(query), undefined, { signal: this.#abortController?.signal })
    const result = await (isEnd ? transaction.end(send) : send()).catch((error: unknown) => {
      const reason = withColumn(error, [query])
      throw this.#migrating === 'changed' && !transaction ? withKeptStatementsHint(reason) : reason
    })
    const isChange = RawNode.is(query.query) ? kind !== 'read' && kind !== 'session' : !mayBeReadOnly(query)
    if (this.#migrating && !transaction && isChange) this.#migrating = 'changed'
    if (transaction) transaction.hasRun = true
    return queryResult(query, result)
  }

  async #executeBatch({ queries, mode, recover }: BatchCommand): Promise<QueryResult<unknown>> {
    const [transaction] = queries.map((query) => this.#accept(query))
    const executor: Executor = this.attempt ?? this.#executor
    if (this.#migrating) for (const { sql } of queries) await rejectCascadingDrop(sql, executor)
    const statements = queries.map(toStatement)
    const signal = this.#abortController?.signal
    try {
      const results = await executor.batch(statements, { mode, signal })
      if (transaction) transaction.hasRun = true
      return { rows: results.map((result, index) => queryResult(queries[index] as CompiledQuery, result)) }
    } catch (error) {
      if (recover?.(error)) return { rows: [] }
      throw withColumn(error, queries)
    }
  }

  get #executor(): Stream | Client {
    return this.#transaction?.stream ?? this.#session ?? this.#client
  }

  #checkUsable(): void {
    if (this.#isReleased) throw new StreamError('STREAM_CLOSED', 'the connection was released')
    if (this.#transaction?.isFinished) this.#transaction = null
    this.#transaction?.checkOpen()
  }

  /** Returns the transaction that a query runs in. @throws StreamError; TypeError for a write in a read-only transaction */
  #accept(query: CompiledQuery): ConnectionTransaction | null {
    this.#checkUsable()
    if (this.#transaction?.isReadOnly && !mayBeReadOnly(query))
      throw new TypeError("the transaction is read only; use setAccessMode('read write') to allow writes")
    return this.#transaction
  }
}

const MANAGED_MESSAGE =
  "Kysely's transactions end when the callback returns or throws, or with their own commit()"

const FOREIGN_KEYS_MESSAGE =
  'PRAGMA foreign_keys has no effect inside a transaction: run it before the transaction, on the same db.connection(); a migration can do so only without `transactionalMigrations`'

const toStatement = ({ sql, parameters }: CompiledQuery): InStatement => ({
  sql,
  args: parameters as readonly InValue[],
})
