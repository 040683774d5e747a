import type { TransactionMode } from '@batonsql/core'
import {
  CompiledQuery,
  createQueryId,
  IdentifierNode,
  type QueryCompiler,
  type QueryResult,
  RawNode,
  type RootOperationNode,
} from 'kysely'

/** Several queries that are sent to the database in one request. */
export interface BatchCommand {
  readonly kind: 'batch'
  readonly queries: readonly CompiledQuery[]
  readonly mode?: TransactionMode | undefined
  /** Called before the queries are sent, but not in a transaction. Nothing is sent if it rejects. */
  readonly check?: (() => Promise<void>) | undefined
  /** Returns whether an error counts as an empty result. */
  readonly recover?: ((error: unknown) => boolean) | undefined
}

export interface SavepointCommand {
  readonly kind: 'savepoint'
  readonly verb: 'savepoint' | 'rollback to' | 'release'
  readonly name: string
}

/** What a connection does for a query instead of sending its text. */
export type DatabaseCommand =
  | { readonly kind: 'begin'; readonly mode: TransactionMode }
  | { readonly kind: 'end'; readonly verb: 'commit' | 'rollback' }
  | SavepointCommand
  | BatchCommand

/** A command that is passed as a query through Kysely's executor, which chooses the connection and logs the query. */
type QueryCommand =
  | DatabaseCommand
  /** Returns a result that was obtained elsewhere. */
  | { readonly kind: 'prefetched'; readonly result: Promise<QueryResult<unknown>> }

// keyed by node, because a builder with a prefetched result is compiled later
const commands = new WeakMap<RootOperationNode, QueryCommand>()

export const getCommand = ({ query }: CompiledQuery): QueryCommand | undefined => commands.get(query)

function withCommand<N extends RootOperationNode>(node: N, command: QueryCommand): N {
  commands.set(node, command)
  return node
}

function commandQuery(sql: string, command: QueryCommand): CompiledQuery {
  const query = CompiledQuery.raw(sql)
  withCommand(query.query, command)
  return query
}

export const beginQuery = (mode: TransactionMode): CompiledQuery =>
  commandQuery(`begin ${mode}`, { kind: 'begin', mode })
export const COMMIT = commandQuery('commit', { kind: 'end', verb: 'commit' })
export const ROLLBACK = commandQuery('rollback', { kind: 'end', verb: 'rollback' })

/** Creates a query that represents a batch. Its rows are the results. */
export const batchQuery = (batch: Omit<BatchCommand, 'kind'>): CompiledQuery =>
  commandQuery(batch.queries.map(({ sql }) => sql).join(';\n'), { kind: 'batch', ...batch })

export function savepointQuery(
  verb: SavepointCommand['verb'],
  name: string,
  compile: QueryCompiler['compileQuery'],
): CompiledQuery {
  const node = RawNode.createWithChildren([RawNode.createWithSql(`${verb} `), IdentifierNode.create(name)])
  return compile(withCommand(node, { kind: 'savepoint', verb, name }), createQueryId())
}

/** Gives the query of a node a result that was obtained elsewhere. @returns the node */
export const withPrefetchedResult = <N extends RootOperationNode>(
  node: N,
  result: Promise<QueryResult<unknown>>,
): N => withCommand(node, { kind: 'prefetched', result })
