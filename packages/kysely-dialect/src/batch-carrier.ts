import type { TransactionMode } from '@batonsql/core'
import { CompiledQuery, type QueryId, type QueryResult } from 'kysely'

/** Several queries that go to the database as one. */
export interface Batch {
  readonly queries: readonly CompiledQuery[]
  readonly mode?: TransactionMode | undefined
  /** Whether an error counts as an empty result. */
  readonly recover?: ((error: unknown) => boolean) | undefined
}

const batches = new WeakMap<object, Batch>()
const prefetched = new WeakMap<object, QueryResult<unknown>>()

/**
 * Makes a query that stands for a batch on its way through Kysely's executor, so that it takes the right connection (the
 * open transaction's, if any) and shows up in the log. Its rows are the results.
 */
export function carry(batch: Batch): CompiledQuery {
  const carrier = CompiledQuery.raw(batch.queries.map(({ sql }) => sql).join(';\n'))
  batches.set(carrier.query, batch)
  return carrier
}

/** The batch that a query stands for. */
export const batchOf = ({ query }: CompiledQuery): Batch | undefined => batches.get(query)

/** Lets the query of this id be answered with a result that is here already. */
export function prefetch(queryId: QueryId, result: QueryResult<unknown>): void {
  prefetched.set(queryId, result)
}

/** Takes the result that was put aside for a query, if any. */
export function takePrefetched(queryId: QueryId): QueryResult<unknown> | undefined {
  const result = prefetched.get(queryId)
  if (result) prefetched.delete(queryId)
  return result
}
