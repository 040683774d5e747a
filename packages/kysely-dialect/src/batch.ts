import type { TransactionMode } from '@batonsql/core'
import { checkOptions, findFailingStatement } from '@batonsql/core/adapter'
import {
  CompiledQuery,
  type KyselyPlugin,
  type QueryExecutorProvider,
  type QueryResult,
  type RawBuilder,
  sql,
  type UnknownRow,
} from 'kysely'
import { getBatonExecutor } from './adapter.ts'
import { batchQuery, withPrefetchedResult } from './query-command.ts'
import { haveSameCompiler } from './query-compiler.ts'

/** Number of microtasks after which a query that cannot be executed, such as one of a closed transaction, is rejected. */
const REPLAY_MICROTASKS = 10

interface Builder<R = unknown> {
  compile(): CompiledQuery
  execute(): Promise<R>
}

/** A query of a batch: a query builder, a schema builder, an `sql` fragment or a compiled query. */
export type Batchable = Builder | RawBuilder<unknown> | CompiledQuery

type BatchResult<Q> =
  Q extends RawBuilder<infer O>
    ? QueryResult<O>
    : Q extends CompiledQuery<infer O>
      ? QueryResult<O>
      : Q extends Builder<infer R>
        ? R
        : never

/** Results of a batch in the order of its queries, each as its own `execute()` returns it. */
export type BatchResults<Q extends readonly Batchable[]> = { -readonly [K in keyof Q]: BatchResult<Q[K]> }

/** Settings of a batch. */
export interface BatchOptions {
  /**
   * How the batch's own transaction begins. Ignored inside a transaction.
   * @default 'immediate', or 'deferred' if all queries are known to be read-only
   */
  readonly mode?: TransactionMode | undefined
}

/**
 * Runs queries as one transaction in one request: all of them are applied, or none. Given a `trx`, they are one request of that
 * transaction, whose earlier statements are kept if the batch fails. No query can use the result of an earlier one. All run on
 * `db`, even those that were built by an open transaction of `db`.
 *
 * ```ts
 * const [ada, pets] = await batch(db, [
 *   db.insertInto('person').values({ name: 'Ada' }).returningAll(),
 *   db.selectFrom('pet').selectAll(),
 * ])
 * ```
 * Kysely logs the batch as one query, and each of its queries as well.
 * @throws SqlError with `statementIndex`; TypeError if `db` has another dialect, or a query belongs to another instance
 */
export async function batch<const Q extends readonly Batchable[] | []>(
  db: QueryExecutorProvider,
  queries: Q,
  options: BatchOptions = {},
): Promise<BatchResults<Q>> {
  const executor = getBatonExecutor(
    db,
    'batch() needs a Kysely instance, or a transaction of one, made with BatonDialect',
  )
  checkOptions(options, { mode: 'string' })
  const { mode } = options
  const compiledQueries = compileAll(queries, db)
  const executorWithoutPlugins = executor.withoutPlugins()
  let replayFailure: { readonly error: unknown } | null = null
  const check = async (): Promise<void> => {
    for (let count = 0; count < REPLAY_MICROTASKS; count++) await Promise.resolve()
    if (replayFailure) throw replayFailure.error
  }
  const batchResult = executorWithoutPlugins.executeQuery<QueryResult<UnknownRow>>(
    batchQuery({ queries: compiledQueries, mode, check }),
  )
  let resolveResults: (results: readonly QueryResult<UnknownRow>[]) => void = () => {}
  const batchResults = new Promise<readonly QueryResult<UnknownRow>[]>((resolve) => {
    resolveResults = resolve
  })
  // started now, so that Kysely runs them before any COMMIT that follows; they send nothing, and wait for the batch
  const replays = queries.map((query, index) =>
    replay(
      query,
      batchResults.then((results) => results[index] ?? { rows: [] }),
      db,
    ),
  )
  // also handles rejections that come before the response
  for (const each of replays) each.catch((error: unknown) => (replayFailure ??= { error }))
  try {
    resolveResults((await batchResult).rows)
  } catch (error) {
    resolveResults([])
    await Promise.allSettled(replays)
    throw await findFailingStatement(error, compiledQueries, {
      batch: (texts, options) =>
        executorWithoutPlugins.executeQuery(
          batchQuery({ queries: texts.map((text) => CompiledQuery.raw(text)), ...options }),
        ),
    })
  }
  return (await Promise.all(replays)) as BatchResults<Q>
}

const isRaw = (query: Batchable): query is RawBuilder<unknown> => 'isRawBuilder' in query
const isBuilder = (query: Batchable): query is Builder => 'compile' in query

function compileAll(queries: readonly Batchable[], db: QueryExecutorProvider): CompiledQuery[] {
  if (!Array.isArray(queries)) throw new TypeError('expected an array of queries')
  const reference = sql``.compile(db)
  return queries.map((query, index) => {
    const { compile, sql: text } = Object(query) as Partial<Builder & CompiledQuery>
    if (compile === undefined && text === undefined)
      throw new TypeError(`query ${index} of the batch is neither a query builder nor compiled`)
    if (isRaw(query)) return query.compile(db)
    if (!isBuilder(query)) return query
    const compiled = query.compile()
    // replaying this query would also run it on the other database
    if (!haveSameCompiler(compiled, reference))
      throw new TypeError(`query ${index} of the batch was built with another Kysely instance`)
    return compiled
  })
}

/**
 * Executes a query with its result from the batch, so that Kysely and the query's plugins transform it as usual. A query builder is
 * executed on the handle that built it, and a raw query on `db`. Nothing is sent to the server.
 */
async function replay(
  query: Batchable,
  result: Promise<QueryResult<UnknownRow>>,
  db: QueryExecutorProvider,
): Promise<unknown> {
  const plugin = usePrefetched(result)
  if (isRaw(query)) return await query.withPlugin(plugin).execute(db)
  if (isBuilder(query)) {
    const builder = query as Builder & { withPlugin?: (plugin: KyselyPlugin) => Builder }
    // some schema builders accept no plugins, but they have no results
    return await builder.withPlugin?.(plugin).execute()
  }
  let transformed = await result
  for (const executorPlugin of db.getExecutor().plugins)
    transformed = await executorPlugin.transformResult({ queryId: query.queryId, result: transformed })
  return transformed
}

/** Creates a plugin that gives its query a prefetched result. */
const usePrefetched = (result: Promise<QueryResult<UnknownRow>>): KyselyPlugin => ({
  // a copy: other executions of the builder share its node
  transformQuery: ({ node }) => withPrefetchedResult({ ...node }, result),
  transformResult: async (args) => args.result,
})
