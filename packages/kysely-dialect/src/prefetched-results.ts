import type { QueryResult, RootOperationNode } from 'kysely'

const results = new WeakMap<RootOperationNode, Promise<QueryResult<unknown>>>()

/** Lets the query of this node be answered with a result that comes from elsewhere. @returns the node */
export function prefetched<N extends RootOperationNode>(node: N, result: Promise<QueryResult<unknown>>): N {
  results.set(node, result)
  return node
}

/** The result that comes from elsewhere for a query, if any. */
export const prefetchedResult = (node: RootOperationNode): Promise<QueryResult<unknown>> | undefined =>
  results.get(node)
