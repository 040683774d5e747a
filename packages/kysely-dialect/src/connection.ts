import {
  type Client,
  type Executor,
  type InStatement,
  type InValue,
  type ResultSet,
  readRows,
  type StatementKind,
  type Stream,
  StreamError,
  statementKind,
} from '@batonsql/core'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type QueryResult,
  RawNode,
  SelectQueryNode,
} from 'kysely'
import { prefetchedResult } from './prefetched-results.ts'
import { type BatchCommand, commandOf, type QueryCommand, type SavepointCommand } from './query-command.ts'

interface QueryOptions {
  readonly signal?: AbortSignal | undefined
}

/**
 * Runs each query in a request of its own, until a statement such as BEGIN needs a stream. Kysely replaces its methods
 * to log queries, and calls them one at a time.
 */
export class BatonConnection implements DatabaseConnection {
  readonly #client: Client
  /** Stays when it was lost, so that the rest of its transaction is refused and not run outside of it. */
  #stream: Stream | null = null
  /**
   * Why everything is refused: the transaction has ended, or Kysely has taken the connection back. Queries that were not
   * awaited come from Kysely's own queue even then.
   */
  #refusal: string | null = null
  /** Queries that were refused. */
  #refused = 0
  /** Queries of the transaction that have had an answer: its BEGIN has left. */
  #executed = 0
  /** Streams whose rows Kysely has not read to their end. */
  #reading = 0
  /** The stream was opened for a transaction and ends with it. */
  #closesWithTransaction = false
  /** The transaction was begun by Kysely, and not by a raw BEGIN. */
  #isKyselys = false
  /** Names of the savepoints made in the transaction, the innermost last. */
  #savepoints: string[] = []
  #abort: AbortController | null = null
  /** The transaction is read only. The server does not see to it by itself. */
  refusesChanges = false

  constructor(client: Client) {
    this.#client = client
  }

  /** Whether there is a transaction that can still be rolled back. */
  get inTransaction(): boolean {
    return this.#stream?.inTransaction ?? false
  }

  async executeQuery<R>(query: CompiledQuery, options?: QueryOptions): Promise<QueryResult<R>> {
    const prefetched = prefetchedResult(query.query)
    if (prefetched) return (await prefetched) as QueryResult<R>
    const command = commandOf(query)
    // not from the queue of a transaction
    if (command?.kind === 'begin') this.#openIfOver()
    if (command?.kind !== 'end') this.#checkOpen()
    // Kysely's signal must not end the request unless it asks to by cancelQuery(): the transaction would end with it
    this.#abort = options?.signal ? new AbortController() : null
    const result = command?.kind === 'batch' ? this.#executeBatch(command) : this.#execute(query, command)
    return (await result) as QueryResult<R>
  }

  /**
   * Reads rows as they come, no faster than they are taken, in pieces of `chunkSize`; leaving early ends the query. An
   * abort ends it quietly: Kysely itself throws then.
   */
  async *streamQuery<R>(
    query: CompiledQuery,
    chunkSize: number,
    options?: QueryOptions,
  ): AsyncIterableIterator<QueryResult<R>> {
    if (!Number.isInteger(chunkSize) || chunkSize < 1)
      throw new RangeError('`chunkSize` must be a positive integer')
    this.#checkOpen()
    this.#checkAccess(query)
    const source = readRows<R>(this.#stream ?? this.#client, toStatement(query), undefined, {
      signal: options?.signal,
    })
    this.#reading += 1
    let rows: R[] = []
    try {
      for await (const row of source) {
        this.#executed += 1
        if (rows.push(row) < chunkSize) continue
        yield { rows }
        rows = []
      }
    } catch (error) {
      if (options?.signal?.aborted) return
      throw error
    } finally {
      this.#reading -= 1
      if (this.#refusal === OVER) void this.#reopen()
    }
    if (rows.length > 0) yield { rows }
  }

  /** Gives up the request that is under way; a transaction ends with it. */
  async cancelQuery(): Promise<void> {
    this.#abort?.abort()
  }

  async killSession(): Promise<void> {
    this.#abort?.abort()
    await this.release()
  }

  /** Closes the stream. What still comes is refused. Never rejects. */
  async release(): Promise<void> {
    this.#closesWithTransaction = false
    this.#refusal = 'the connection was released'
    await this.#stream?.close()
  }

  /** Goes on without the stream of a transaction that was lost. Never rejects. */
  async leaveTransaction(): Promise<void> {
    if (!this.#closesWithTransaction) return
    this.#refusal ??= OVER
    await this.#stream?.close()
    await this.#reopen()
  }

  #checkOpen(): void {
    if (this.#refusal === null) return
    this.#refused += 1
    throw new StreamError('STREAM_CLOSED', this.#refusal)
  }

  /**
   * Lets the connection be used again, when the transaction has ended and Kysely's queue has nothing more of it: what waits
   * there comes in the turn after the query before it was refused, and behind the stream that is read.
   */
  async #reopen(isOver = true): Promise<void> {
    for (let refused = -1; refused < this.#refused; ) {
      refused = this.#refused
      await new Promise((resolve) => setTimeout(resolve))
    }
    if (isOver) this.#openIfOver()
  }

  #openIfOver(): void {
    if (this.#refusal === OVER && this.#reading === 0) this.#open()
  }

  #open(): void {
    this.#refusal = null
    if (this.#closesWithTransaction) this.#stream = null
  }

  async #execute(query: CompiledQuery, command: QueryCommand | undefined): Promise<QueryResult<unknown>> {
    if (command?.kind === 'savepoint' && this.#travelsWithNext(command)) return { rows: [] }
    this.#checkAccess(query)
    return queryResult(query, await this.#send(query))
  }

  async #send(query: CompiledQuery): Promise<ResultSet> {
    const kind = statementKind(query.sql)
    const begins = kind === 'begin'
    const ends = kind === 'commit' || kind === 'rollback'
    this.#checkControl(query, kind)
    // lost when the next statement goes over another stream; all others need none, so that one query is one request
    if (begins || kind === 'savepoint' || kind === 'session') this.#openStream(begins)
    const executor: Executor = this.#stream ?? this.#client
    const pending = executor.execute(toStatement(query), undefined, { signal: this.#abort?.signal })
    if (!ends) {
      const result = await pending
      // BEGIN has not left yet
      if (!begins) this.#executed += 1
      return result
    }
    // in the same tick: the end of the transaction and of the stream share a request; unless it was refused
    const closed = this.#closesWithTransaction && !this.inTransaction ? this.#stream?.close() : undefined
    const ended = Promise.allSettled([pending, closed])
    if (commandOf(query)?.kind === 'end') await this.#afterTransaction(ended)
    else await ended
    const result = await pending
    if (closed) this.#stream = null
    return result
  }

  /**
   * Refuses what comes while a transaction of Kysely's ends; and after a COMMIT that failed, until the rollback or, as Kysely does
   * not always roll back what was lost, the next transaction.
   */
  async #afterTransaction(ended: Promise<PromiseSettledResult<unknown>[]>): Promise<void> {
    this.#refusal ??= OVER
    const refused = this.#refused
    const [outcome] = await ended
    const isDone = outcome?.status === 'fulfilled'
    // its end took a request, in which all that was not awaited has come: there is nothing to wait for
    if (isDone && this.#executed > 0 && this.#reading === 0 && this.#refused === refused) this.#open()
    else await this.#reopen(isDone)
  }

  /** What runs behind a COMMIT that Kysely knows nothing of would be in no transaction, and stay. */
  #checkControl(query: CompiledQuery, kind: StatementKind): void {
    if (kind !== 'begin' && kind !== 'commit' && kind !== 'rollback') return
    const command = commandOf(query)?.kind
    const isKyselys = command === 'begin' || command === 'end'
    if (this.#isKyselys && !isKyselys && this.inTransaction)
      throw new TypeError(
        'a transaction of Kysely ends when its callback returns or throws, or by its own commit()',
      )
    this.#isKyselys = isKyselys && kind === 'begin'
  }

  #checkAccess(query: CompiledQuery): void {
    if (this.refusesChanges && this.inTransaction && !mayRead(query))
      throw new TypeError("the transaction is read only; use setAccessMode('read write') to change something")
  }

  async #executeBatch({ queries, mode, recover }: BatchCommand): Promise<QueryResult<unknown>> {
    for (const query of queries) this.#checkAccess(query)
    const executor: Executor = this.#stream ?? this.#client
    try {
      const results = await executor.batch(queries.map(toStatement), { mode, signal: this.#abort?.signal })
      this.#executed += 1
      return { rows: results.map((result, at) => queryResult(queries[at] as CompiledQuery, result)) }
    } catch (error) {
      if (recover?.(error)) return { rows: [] }
      throw error
    }
  }

  /**
   * Savepoints cost no requests. Only those made here, though: a mistaken name has to be refused at once, and not to be the
   * end of the transaction later on.
   */
  #travelsWithNext({ verb, name }: SavepointCommand): boolean {
    const stream = this.#stream
    if (!stream?.inTransaction) return false
    const key = foldCase(name)
    if (verb === 'savepoint') {
      this.#savepoints.push(key)
      stream.savepoint(name)
      return true
    }
    const at = this.#savepoints.lastIndexOf(key)
    if (at < 0) return false
    this.#savepoints.length = verb === 'release' ? at : at + 1
    if (verb === 'release') stream.release(name)
    else stream.rollbackTo(name)
    return true
  }

  #openStream(forTransaction: boolean): void {
    if (forTransaction && !this.inTransaction) {
      this.#savepoints = []
      this.#executed = 0
      this.refusesChanges = false
    }
    // only a new transaction need not suffer from the end of the last one
    const isNewBegin = forTransaction && this.#closesWithTransaction && !this.#stream?.isOpen
    if (this.#stream && !isNewBegin) return
    this.#stream = this.#client.openStream()
    this.#closesWithTransaction = forTransaction
  }
}

const OVER = 'the transaction has ended; an await is missing, or rows of it are still read'

/** A name as SQLite compares names: without regard to the case of ASCII letters. */
const foldCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase())

const toStatement = ({ sql, parameters }: CompiledQuery): InStatement => ({
  sql,
  args: parameters as readonly InValue[],
})

/** Whether a query may be one that only reads; all builders but selects change something. */
const mayRead = ({ query }: CompiledQuery): boolean => SelectQueryNode.is(query) || RawNode.is(query)

function queryResult(query: CompiledQuery, result: ResultSet): QueryResult<unknown> {
  const { rows, rowsAffected, lastInsertRowid } = result
  if (result.columns.length > 0)
    return rowsAffected > 0 || !mayRead(query) ? { rows, numAffectedRows: BigInt(rowsAffected) } : { rows }
  return {
    rows,
    numAffectedRows: BigInt(rowsAffected),
    ...(lastInsertRowid !== null && { insertId: lastInsertRowid }),
  }
}
