import {
  type Client,
  type Executor,
  type InStatement,
  type InValue,
  type ResultSet,
  readRows,
  StreamError,
} from '@batonsql/core'
import {
  openStream,
  type StatementKind,
  type Stream,
  setsForeignKeys,
  statementKind,
} from '@batonsql/core/adapter'
import { type CompiledQuery, type DatabaseConnection, type QueryResult, RawNode } from 'kysely'
import { rejectCascadingDrops } from './cascading-drop.ts'
import { ConnectionTransaction } from './connection-transaction.ts'
import { withColumn } from './parameter-error.ts'
import { type BatchCommand, type DatabaseCommand, getCommand } from './query-command.ts'
import { mayBeReadOnly, queryResult } from './query-result.ts'
import { RowLoop } from './row-loop.ts'
import { RunningMigrations } from './running-migrations.ts'

interface QueryOptions {
  readonly signal?: AbortSignal | undefined
}

/**
 * A connection without a pool: outside of transactions, it sends each query in its own request until a statement such as `pragma … =`
 * needs a session. Kysely calls its methods one at a time, so its state needs no lock, and replaces them to log queries, so they do not
 * call each other.
 */
export class BatonConnection implements DatabaseConnection {
  readonly #client: Client
  /** Opened by the first statement that needs a session. Kept when it is lost, so that no query runs without its settings. */
  #session: Stream | null = null
  /** The open transaction. Kept when it is lost, so that none of its queries runs outside of it. */
  #transaction: ConnectionTransaction | null = null
  #isReleased = false
  #abortController: AbortController | null = null
  #migrations: RunningMigrations | null = null
  /** The executor of queries in an optimistic transaction: the executor of its reads, or of its writes. Otherwise null. */
  #optimisticTarget: Executor | null = null
  /**
   * Known to the queries that wait for this connection.
   * @internal
   */
  readonly rowLoop: RowLoop

  constructor(client: Client) {
    this.#client = client
    this.rowLoop = new RowLoop(client.requestTimeoutMs)
  }

  /**
   * The client, for an optimistic transaction.
   * @throws TypeError on a connection with its own session or transaction
   * @internal
   */
  getClientForOptimistic(): Client {
    if (this.#transaction || this.#session || this.#optimisticTarget)
      throw new TypeError('optimistic() needs a Kysely instance without a transaction or settings of its own')
    return this.#client
  }

  /**
   * Runs `work`, and executes its queries on this connection with `target`. Kysely gives a connection to one consumer at a time,
   * so no other query uses `target` meanwhile.
   * @internal
   */
  async runOn<T>(target: Executor, work: () => Promise<T>): Promise<T> {
    this.#optimisticTarget = target
    try {
      return await work()
    } finally {
      this.#optimisticTarget = null
    }
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
    const transaction = this.#acceptStatement(query, kindOf(query))
    if (this.#optimisticTarget) throw new TypeError('rows cannot be streamed in an optimistic transaction')
    // unlike in `executeQuery`: the signal ends the loop over the rows, which stops the query anyway
    const source = readRows<R>(this.#streamOrClient, toStatement(query), undefined, {
      signal: options?.signal,
    })
    transaction?.startReading()
    let rows: R[] = []
    let hasFailed = false
    try {
      if (this.#migrations) await rejectCascadingDrops([query], this.#executor)
      for await (const row of source) {
        if (rows.push(row) < chunkSize) continue
        this.rowLoop.startBody()
        yield { rows }
        this.rowLoop.endBody()
        rows = []
      }
      this.rowLoop.startBody()
      if (rows.length > 0) yield { rows }
    } catch (error) {
      hasFailed = true
      if (options?.signal?.aborted) return
      throw this.#describe(error, [query], 'statement')
    } finally {
      if (!hasFailed) this.#onExecuted([query], transaction)
      this.rowLoop.endBody()
      void transaction?.stopReading()
    }
  }

  /** Aborts the request in flight; a transaction ends with it. */
  async cancelQuery(): Promise<void> {
    this.#abortController?.abort()
  }

  /** Called for an aborted query with the strategy `kill session`: no later query of the connection runs. */
  async killSession(): Promise<void> {
    this.#abortController?.abort()
    await this.release()
  }

  /**
   * Called before and after Kysely's Migrator runs migrations on this connection.
   * @internal
   */
  setMigrating(isMigrating: boolean): void {
    this.#migrations = isMigrating ? new RunningMigrations() : null
  }

  /** Closes the streams, after which all queries are rejected. Never rejects. */
  async release(): Promise<void> {
    this.#isReleased = true
    await this.#transaction?.stream.close()
    await this.#session?.close()
  }

  /**
   * Ends a transaction that was lost, so that the connection can be used again. If a COMMIT is in flight, waits for it first.
   * @throws TransportError `TIMEOUT` or `CLOSED` during that wait
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
    if (this.#optimisticTarget)
      throw new TypeError('transactions cannot be nested in an optimistic transaction')
    // Kysely does not end a transaction that was lost
    if (this.#transaction?.isReplaceable) this.#transaction = null
    this.#checkUsable()
    // the stream of an open transaction rejects another BEGIN
    const stream = this.#transaction?.stream ?? this.#session ?? openStream(this.#client)
    this.#transaction = new ConnectionTransaction(stream, begin, isManaged, stream !== this.#session)
  }

  async #end(verb: 'commit' | 'rollback'): Promise<void> {
    const transaction = this.#transaction
    if (transaction) await this.#endWith(transaction, verb, () => transaction.stream[verb]())
  }

  /** @param send sends COMMIT or ROLLBACK; must call the stream synchronously */
  async #endWith<T>(
    transaction: ConnectionTransaction,
    verb: 'commit' | 'rollback',
    send: () => Promise<T>,
  ): Promise<T> {
    const result = await transaction.end(send)
    if (verb === 'commit' && transaction.hasRun && !transaction.isReadOnly) this.#migrations?.onCommitted()
    return result
  }

  async #execute(query: CompiledQuery): Promise<QueryResult<unknown>> {
    const kind = kindOf(query)
    if (kind === 'begin' && !this.#optimisticTarget) {
      this.#begin(query.sql, false)
      return { rows: [] }
    }
    const transaction = this.#acceptStatement(query, kind)
    const result = await this.#send(query, kind, transaction)
    this.#onExecuted([query], transaction)
    return queryResult(query, result)
  }

  async #send(
    query: CompiledQuery,
    kind: StatementKind,
    transaction: ConnectionTransaction | null,
  ): Promise<ResultSet> {
    const send = () =>
      this.#executor.execute(toStatement(query), undefined, { signal: this.#abortController?.signal })
    try {
      // no await without one: a query is sent in the tick of its call, and before a COMMIT that follows
      if (this.#migrations) await rejectCascadingDrops([query], this.#executor)
      if (transaction && (kind === 'commit' || kind === 'rollback'))
        return await this.#endWith(transaction, kind, send)
      return await send()
    } catch (error) {
      throw this.#describe(error, [query], 'statement')
    }
  }

  async #executeBatch({ queries, mode, check, recover }: BatchCommand): Promise<QueryResult<unknown>> {
    // also for an empty batch
    this.#checkUsable()
    for (const query of queries) this.#accept(query)
    const transaction = this.#transaction
    const statements = queries.map(toStatement)
    const signal = this.#abortController?.signal
    // in a transaction, the check would delay the batch until after an unawaited COMMIT, and an error rolls it back anyway
    if (!transaction) await check?.()
    try {
      if (this.#migrations) await rejectCascadingDrops(queries, this.#executor)
      const results = await this.#executor.batch(statements, { mode, signal })
      this.#onExecuted(queries, transaction)
      return { rows: results.map((result, index) => queryResult(queries[index] as CompiledQuery, result)) }
    } catch (error) {
      if (recover?.(error)) return { rows: [] }
      throw this.#describe(error, queries, 'batch')
    }
  }

  #onExecuted(queries: readonly CompiledQuery[], transaction: ConnectionTransaction | null): void {
    if (transaction) transaction.hasRun = true
    else this.#migrations?.onApplied(queries)
  }

  /** Adds what is known about the failed queries to their error. */
  #describe(error: unknown, queries: readonly CompiledQuery[], failed: 'statement' | 'batch'): unknown {
    const reason = withColumn(error, queries)
    return this.#transaction || !this.#migrations ? reason : this.#migrations.withHint(reason, failed)
  }

  get #streamOrClient(): Stream | Client {
    return this.#transaction?.stream ?? this.#session ?? this.#client
  }

  get #executor(): Executor {
    return this.#optimisticTarget ?? this.#streamOrClient
  }

  #checkUsable(): void {
    if (this.#isReleased) throw new StreamError('STREAM_CLOSED', 'the connection was released')
    if (this.#transaction?.isFinished) this.#transaction = null
    this.#transaction?.checkOpen()
  }

  /** Returns the transaction that a statement runs in. Opens the session that the statement needs if there is no transaction. */
  #acceptStatement(query: CompiledQuery, kind: StatementKind): ConnectionTransaction | null {
    const transaction = this.#accept(query)
    if (transaction) checkAllowedInside(transaction, kind, query.sql)
    else if (kind === 'session' && !this.#optimisticTarget) this.#session ??= openStream(this.#client)
    return transaction
  }

  /**
   * Returns the transaction that a query runs in.
   * @throws StreamError; TypeError for a query builder that writes in a read-only transaction
   */
  #accept(query: CompiledQuery): ConnectionTransaction | null {
    this.#checkUsable()
    if (this.#transaction?.isReadOnly && !mayBeReadOnly(query))
      throw new TypeError("the transaction is read only; use setAccessMode('read write') to allow writes")
    return this.#transaction
  }
}

/** @throws TypeError for a statement that would end a transaction of Kysely's, or that SQLite ignores inside a transaction */
function checkAllowedInside({ isManaged }: ConnectionTransaction, kind: StatementKind, sql: string): void {
  if (setsForeignKeys(sql, kind)) throw new TypeError(FOREIGN_KEYS_MESSAGE)
  if (isManaged && (kind === 'commit' || kind === 'rollback')) throw new TypeError(MANAGED_MESSAGE)
}

const MANAGED_MESSAGE =
  "Kysely's transactions end when the callback returns or throws, or with their own commit()"

const FOREIGN_KEYS_MESSAGE =
  'PRAGMA foreign_keys has no effect inside a transaction: run it before the transaction, on the same db.connection(); a migration can do so only without `transactionalMigrations`'

/** Returns the kind of raw SQL. Query builders neither begin nor end a transaction, and need no session. */
const kindOf = ({ query, sql }: CompiledQuery): StatementKind =>
  RawNode.is(query) ? statementKind(sql) : 'other'

const toStatement = ({ sql, parameters }: CompiledQuery): InStatement => ({
  sql,
  args: parameters as readonly InValue[],
})
