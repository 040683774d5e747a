import type { QueryId, QueryResult } from 'kysely'

const results = new WeakMap<object, Promise<QueryResult<unknown>>>()

/** Lets the query of this id be answered with a result that comes from elsewhere. */
export function prefetch(queryId: QueryId, result: Promise<QueryResult<unknown>>): void {
  results.set(queryId, result)
}

/** Takes the result that was put aside for a query, if any. */
export function takePrefetched(queryId: QueryId): Promise<QueryResult<unknown>> | undefined {
  const result = results.get(queryId)
  if (result) results.delete(queryId)
  return result
}
