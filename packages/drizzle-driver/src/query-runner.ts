import {
  type ArrayRow,
  type Client,
  findDatabaseError,
  type InValue,
  type ResultSet,
  type Transaction,
  type TransactionMode,
} from '@batonsql/core'
import { type Attempt, findFailingStatement } from '@batonsql/core/adapter'

export type ArrayResult = ResultSet<ArrayRow>

export interface RunnableSql {
  readonly sql: string
  readonly params: readonly unknown[]
  /** Tables that the query changes. */
  readonly changedTables: readonly string[]
}

export type WrapError = (sql: string, params: unknown[], error: Error) => Error

// In WAL mode, which the server uses, SQLite treats exclusive like immediate.
const MODES = {
  deferred: 'deferred',
  immediate: 'immediate',
  exclusive: 'immediate',
  concurrent: 'concurrent',
} as const

export type TransactionBehavior = keyof typeof MODES

function toMode(behavior: TransactionBehavior | undefined): TransactionMode | undefined {
  if (behavior !== undefined && !Object.hasOwn(MODES, behavior))
    throw new TypeError(
      `behavior must be 'deferred', 'immediate', 'exclusive' or 'concurrent', not '${behavior}'`,
    )
  return behavior && MODES[behavior]
}

/** Executes queries: a client, a transaction, or the reads or writes of an attempt at an optimistic transaction. */
type QueryExecutor = Client | Transaction | Attempt | Attempt['writer']

/** Converts a raw parameter: a Date becomes milliseconds since 1970, as in Drizzle's own drivers. */
const toParam = (value: unknown): InValue => (value instanceof Date ? value.getTime() : (value as InValue))

/** Whether a failed call may have changed something. */
const mayBeApplied = (error: unknown): boolean =>
  (error as { readonly outcome?: unknown } | null | undefined)?.outcome === 'unknown'

/**
 * Runs queries on a client or inside a transaction, and reports changed tables to Drizzle's cache. Shared by all Drizzle
 * versions.
 */
export class QueryRunner {
  readonly #executor: QueryExecutor
  readonly #onChange: (tables: string[]) => Promise<void>
  /** Tables changed by the transaction, which the cache invalidates at its end; null outside of one. */
  readonly #changedTables: Set<string> | null

  constructor(
    executor: QueryExecutor,
    onChange: (tables: string[]) => Promise<void>,
    changedTables: Set<string> | null = null,
  ) {
    this.#executor = executor
    this.#onChange = onChange
    this.#changedTables = changedTables
  }

  get isTransaction(): boolean {
    return this.#changedTables !== null
  }

  /** Runs one query. Outside of transactions Drizzle itself invalidates the cache. */
  async execute({ sql, params, changedTables }: RunnableSql): Promise<ArrayResult> {
    this.#recordChanges(changedTables)
    return await this.#executor.execute(sql, params.map(toParam), { rowMode: 'array' })
  }

  /**
   * Runs queries in one request. Outside of a transaction, all of them are applied, or none; inside of one, those before the failed
   * query remain.
   * @param wrap turns the client's error, and the failed query if it is known, into Drizzle's error
   */
  async batch(
    queries: readonly RunnableSql[],
    wrap: WrapError,
    behavior: TransactionBehavior | undefined,
  ): Promise<ArrayResult[]> {
    const mode = toMode(behavior)
    const changedTables = queries.flatMap((query) => query.changedTables)
    this.#recordChanges(changedTables)
    const statements = queries.map(({ sql, params }) => ({ sql, args: params.map(toParam) }))
    let results: ArrayResult[]
    try {
      results = await this.#executor.batch(statements, { rowMode: 'array', mode })
    } catch (reason) {
      if (mayBeApplied(reason)) await this.#invalidate(changedTables)
      throw await this.#toDrizzleError(reason, queries, wrap)
    }
    await this.#invalidate(changedTables)
    return results
  }

  async #toDrizzleError(reason: unknown, queries: readonly RunnableSql[], wrap: WrapError): Promise<Error> {
    const error = (await findFailingStatement(reason, queries, this.#executor)) as Error
    // the user's `authToken` may have thrown anything
    const { statementIndex } = Object(error) as { readonly statementIndex?: number | null }
    const failedQuery = statementIndex == null ? undefined : queries[statementIndex]
    const sql = failedQuery?.sql ?? queries.map((query) => query.sql).join(';\n')
    return wrap(sql, [...(failedQuery?.params ?? [])], error)
  }

  /** The runner for the writes of an optimistic transaction; otherwise this one. */
  get writer(): QueryRunner {
    const executor = this.#executor
    return 'writer' in executor ? this.#inside(executor.writer, this.#changedTables) : this
  }

  /** Begins a transaction or, inside one, a savepoint, for which `behavior` is ignored. */
  async transaction<T>(
    callback: (runner: QueryRunner) => Promise<T>,
    behavior?: TransactionBehavior,
  ): Promise<T> {
    const executor = this.#executor
    if ('savepoint' in executor)
      return await executor.savepoint((savepoint) => callback(this.#inside(savepoint, this.#changedTables)))
    if (!('transaction' in executor))
      throw new TypeError('transactions cannot be nested in an optimistic transaction')
    return await this.runTransaction((run) => executor.transaction(run, { mode: toMode(behavior) }), callback)
  }

  #inside(executor: QueryExecutor, changedTables: Set<string> | null): QueryRunner {
    return new QueryRunner(executor, this.#onChange, changedTables)
  }

  /** Runs a callback in the transaction that `start` begins, and invalidates the tables that it changed. */
  async runTransaction<T>(
    start: (run: (executor: Transaction | Attempt) => Promise<T>) => Promise<T>,
    callback: (runner: QueryRunner) => Promise<T>,
  ): Promise<T> {
    const changedTables = new Set<string>()
    try {
      const result = await start((executor) => callback(this.#inside(executor, changedTables)))
      await this.#invalidate([...changedTables])
      return result
    } catch (error) {
      // the transaction may have been committed, for example if the response to COMMIT was lost
      if (mayBeApplied(findDatabaseError(error))) await this.#invalidate([...changedTables])
      throw error
    }
  }

  /** Records tables that the transaction may have changed, even with a failing statement. */
  #recordChanges(tables: readonly string[]): void {
    for (const table of tables) this.#changedTables?.add(table)
  }

  /**
   * Invalidates changed tables in the cache, unless the end of the transaction will do so. Never rejects, so that an error of the
   * cache does not make a committed change look failed.
   */
  async #invalidate(tables: string[]): Promise<void> {
    if (tables.length > 0 && !this.isTransaction) await this.#onChange(tables).catch(() => {})
  }
}
