import {
  type ArrayRow,
  type Client,
  findDatabaseError,
  findFailingStatement,
  type ResultSet,
  type Transaction,
  type TransactionMode,
} from '@batonsql/core'
import { toParam } from './values.ts'

export type ArrayResult = ResultSet<ArrayRow>

/** A query as it is sent. */
export interface RunnableSql {
  readonly sql: string
  readonly params: readonly unknown[]
  /** Tables that it changes. */
  readonly changes: readonly string[]
}

export type WrapError = (sql: string, params: unknown[], error: Error) => Error

// SQLite in WAL mode, which the server uses, knows no difference between exclusive and immediate.
const MODES = { deferred: 'deferred', immediate: 'immediate', exclusive: 'immediate' } as const

export type TransactionBehavior = keyof typeof MODES

function modeOf(behavior: TransactionBehavior | undefined): TransactionMode | undefined {
  if (behavior !== undefined && !Object.hasOwn(MODES, behavior))
    throw new TypeError(`behavior must be 'deferred', 'immediate' or 'exclusive', not '${behavior}'`)
  return behavior && MODES[behavior]
}

/** Whether a call that failed may have changed something all the same. */
const mayBeApplied = (error: unknown): boolean =>
  (error as { readonly outcome?: unknown } | null | undefined)?.outcome === 'unknown'

/**
 * What the drivers for all versions of Drizzle have in common: runs queries on a client, or inside a transaction, and tells
 * the cache which tables were changed.
 */
export class QueryRunner {
  readonly #executor: Client | Transaction
  readonly #onChange: (tables: string[]) => Promise<void>
  /** Tables changed by the transaction, for the cache to forget when it is over; null outside. */
  readonly #changedTables: Set<string> | null

  constructor(
    executor: Client | Transaction,
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

  /** Runs one query. Outside transactions it is Drizzle that tells the cache. */
  async execute({ sql, params, changes }: RunnableSql): Promise<ArrayResult> {
    this.#remember(changes)
    return await this.#executor.execute(sql, params.map(toParam), { rowMode: 'array' })
  }

  /**
   * Runs queries in one request: all of them take effect, or none.
   * @param wrap makes Drizzle's error of the client's, and of the query that failed, as far as one can tell
   */
  async batch(
    queries: readonly RunnableSql[],
    wrap: WrapError,
    behavior: TransactionBehavior | undefined,
  ): Promise<ArrayResult[]> {
    const mode = modeOf(behavior)
    const changes = queries.flatMap((query) => query.changes)
    this.#remember(changes)
    const results = await this.#send(queries, mode).catch(async (reason: unknown) => {
      if (mayBeApplied(reason)) await this.#tell(changes)
      const error = (await findFailingStatement(reason, queries, this.#executor)) as Error
      const { statementIndex } = error as { readonly statementIndex?: number | null }
      const failed = queries[statementIndex ?? -1]
      throw wrap(failed?.sql ?? queries.map(({ sql }) => sql).join(';\n'), [...(failed?.params ?? [])], error)
    })
    await this.#tell(changes)
    return results
  }

  async #send(queries: readonly RunnableSql[], mode: TransactionMode | undefined): Promise<ArrayResult[]> {
    const statements = queries.map(({ sql, params }) => ({ sql, args: params.map(toParam) }))
    return await this.#executor.batch(statements, { rowMode: 'array', mode })
  }

  /** Begins a transaction or, inside one, a savepoint, to which `behavior` means nothing. */
  async transaction<T>(
    callback: (runner: QueryRunner) => Promise<T>,
    behavior?: TransactionBehavior,
  ): Promise<T> {
    const executor = this.#executor
    const changed = this.#changedTables ?? new Set<string>()
    const run = (transaction: Transaction): Promise<T> =>
      callback(new QueryRunner(transaction, this.#onChange, changed))
    if ('savepoint' in executor) return await executor.savepoint(run)
    try {
      const result = await executor.transaction(run, { mode: modeOf(behavior) })
      await this.#tell([...changed])
      return result
    } catch (error) {
      // of the COMMIT, whose answer was lost
      if (mayBeApplied(findDatabaseError(error))) await this.#tell([...changed])
      throw error
    }
  }

  /** Notes tables that the transaction may change, also by a statement that fails. */
  #remember(tables: readonly string[]): void {
    for (const table of tables) this.#changedTables?.add(table)
  }

  /**
   * Tells the cache what was changed, unless the end of the transaction will. Never rejects: what was committed must not look as
   * if it had failed, whatever the cache throws.
   */
  async #tell(tables: string[]): Promise<void> {
    if (tables.length > 0 && !this.isTransaction) await this.#onChange(tables).catch(() => {})
  }
}
