import { type CompiledQuery, type QueryId, type RootOperationNode, SqliteQueryCompiler } from 'kysely'

const compilers = new WeakMap<CompiledQuery, BatonQueryCompiler>()

/**
 * Kysely's compiler for SQLite, which records the queries that it has compiled. A Kysely instance and its transactions share one.
 */
export class BatonQueryCompiler extends SqliteQueryCompiler {
  override compileQuery(node: RootOperationNode, queryId: QueryId): CompiledQuery {
    const query = super.compileQuery(node, queryId)
    compilers.set(query, this)
    return query
  }
}

/** Whether two queries were compiled by the same Kysely instance. */
export const haveSameCompiler = (a: CompiledQuery, b: CompiledQuery): boolean =>
  compilers.get(a) === compilers.get(b)
