import { type CompiledQuery, type QueryId, type RootOperationNode, SqliteQueryCompiler } from 'kysely'

const compilerOf = new WeakMap<CompiledQuery, BatonQueryCompiler>()

/**
 * Kysely's compiler for SQLite. Remembers which instance has compiled a query, so that `batch()` can reject queries of another
 * database: a Kysely instance and its transactions share one compiler.
 */
export class BatonQueryCompiler extends SqliteQueryCompiler {
  override compileQuery(node: RootOperationNode, queryId: QueryId): CompiledQuery {
    const query = super.compileQuery(node, queryId)
    compilerOf.set(query, this)
    return query
  }
}

/** Whether two queries were compiled by the same Kysely instance; one of them with this compiler. */
export const haveSameCompiler = (a: CompiledQuery, b: CompiledQuery): boolean =>
  compilerOf.get(a) === compilerOf.get(b)
