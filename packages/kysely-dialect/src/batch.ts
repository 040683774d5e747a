import { findFailingStatement, type TransactionMode } from '@batonsql/core'
import {
  CompiledQuery,
  type KyselyPlugin,
  type QueryExecutorProvider,
  type QueryResult,
  type RawBuilder,
  sql,
  type UnknownRow,
} from 'kysely'
import { BatonAdapter } from './adapter.ts'
import { batchQuery, prefetched } from './query-command.ts'
import { haveOneCompiler } from './query-compiler.ts'

interface Builder<R = unknown> {
  compile(): CompiledQuery
  execute(): Promise<R>
}

/** What can be in a batch: a query builder, a schema builder, an `sql` fragment or a compiled query. */
export type Batchable = Builder | RawBuilder<unknown> | CompiledQuery

type BatchResult<Q> =
  Q extends RawBuilder<infer O>
    ? QueryResult<O>
    : Q extends CompiledQuery<infer O>
      ? QueryResult<O>
      : Q extends Builder<infer R>
        ? R
        : never

/** Results of a batch, in the order of its queries: of each what its own `execute()` gives. */
export type BatchResults<Q extends readonly Batchable[]> = { -readonly [K in keyof Q]: BatchResult<Q[K]> }

export interface BatchOptions {
  /**
   * How the batch's own transaction begins; without meaning inside a transaction.
   * @default 'immediate', or 'deferred' when every query is certain to only read
   */
  readonly mode?: TransactionMode | undefined
}

/**
 * Runs queries as one transaction in one request: all of them take effect, or none. Inside a transaction (give `trx`) it is
 * one request of that, and what came before stays when it fails. No query can use the result of an earlier one. Where the
 * queries run is for `db` to say, also when a transaction of it built them.
 *
 * ```ts
 * const [ada, pets] = await batch(db, [
 *   db.insertInto('person').values({ name: 'Ada' }).returningAll(),
 *   db.selectFrom('pet').selectAll(),
 * ])
 * ```
 * Kysely's log shows the batch as one query, and each of its queries.
 * @throws SqlError with `statementIndex`; TypeError when `db` is of another dialect, or a query of another instance
 */
export async function batch<const Q extends readonly Batchable[] | []>(
  db: QueryExecutorProvider,
  queries: Q,
  { mode }: BatchOptions = {},
): Promise<BatchResults<Q>> {
  const executor = db.getExecutor()
  if (!(executor.adapter instanceof BatonAdapter))
    throw new TypeError('batch() needs a Kysely instance, or a transaction of one, made with BatonDialect')
  if (queries.length === 0) return [] as BatchResults<Q>
  const compiled = compileAll(queries, db)
  const plain = executor.withoutPlugins()
  const sent = plain.executeQuery<QueryResult<UnknownRow>>(batchQuery({ queries: compiled, mode }))
  let answer: (results: readonly QueryResult<UnknownRow>[]) => void = () => {}
  const answered = new Promise<readonly QueryResult<UnknownRow>[]>((resolve) => {
    answer = resolve
  })
  // queued at once, before a COMMIT that may follow
  const replays = queries.map((query, at) =>
    replay(
      query,
      answered.then((results) => results[at] ?? { rows: [] }),
      db,
    ),
  )
  try {
    answer((await sent).rows)
  } catch (error) {
    answer([])
    await Promise.allSettled(replays)
    throw await findFailingStatement(error, compiled, {
      batch: (texts, options) =>
        plain.executeQuery(batchQuery({ queries: texts.map((text) => CompiledQuery.raw(text)), ...options })),
    })
  }
  return (await Promise.all(replays)) as BatchResults<Q>
}

const isRaw = (query: Batchable): query is RawBuilder<unknown> => 'isRawBuilder' in query

function compileAll(queries: readonly Batchable[], db: QueryExecutorProvider): CompiledQuery[] {
  const own = sql``.compile(db)
  return queries.map((query, at) => {
    if (isRaw(query)) return query.compile(db)
    if (!('compile' in query)) return query
    const compiled = query.compile()
    // its replay would run it on the other database, too
    if (!haveOneCompiler(compiled, own))
      throw new TypeError(`query ${at} of the batch was built with another Kysely instance`)
    return compiled
  })
}

/**
 * Lets a query run by itself, through its own plugins and with its result of the batch, so that what comes out is what Kysely
 * makes of it.
 */
async function replay(
  query: Batchable,
  result: Promise<QueryResult<UnknownRow>>,
  db: QueryExecutorProvider,
): Promise<unknown> {
  const plugin = answerWith(result)
  if (isRaw(query)) return await query.withPlugin(plugin).execute(db)
  if ('compile' in query) {
    const builder = query as Builder & { withPlugin?: (plugin: KyselyPlugin) => Builder }
    // a schema builder may have no plugins, and has no result
    return await builder.withPlugin?.(plugin).execute()
  }
  let transformed = await result
  for (const each of db.getExecutor().plugins)
    transformed = await each.transformResult({ queryId: query.queryId, result: transformed })
  return transformed
}

/** A plugin that has the query it is put on answered. */
const answerWith = (result: Promise<QueryResult<UnknownRow>>): KyselyPlugin => ({
  // a node of its own: the builder's, and its id, are also those of its other executions
  transformQuery: ({ node }) => prefetched({ ...node }, result),
  transformResult: async (args) => args.result,
})
