import type { TransactionMode } from '@batonsql/core'
import { CompiledQuery, createQueryId, IdentifierNode, type QueryCompiler, RawNode } from 'kysely'

/** Several queries that go to the database as one. */
export interface BatchCommand {
  readonly kind: 'batch'
  readonly queries: readonly CompiledQuery[]
  readonly mode?: TransactionMode | undefined
  /** Whether an error counts as an empty result. */
  readonly recover?: ((error: unknown) => boolean) | undefined
}

export interface SavepointCommand {
  readonly kind: 'savepoint'
  readonly verb: 'savepoint' | 'rollback to' | 'release'
  readonly name: string
}

/** What a query stands for on its way through Kysely's executor, which takes it to the right connection, and logs it. */
export type QueryCommand =
  | BatchCommand
  | SavepointCommand
  /** BEGIN of a transaction of Kysely's, or its COMMIT or ROLLBACK, and not the same words in a query. */
  | { readonly kind: 'begin' | 'end' }

const commands = new WeakMap<object, QueryCommand>()

/** What a query stands for, if it is not just itself. */
export const commandOf = ({ query }: CompiledQuery): QueryCommand | undefined => commands.get(query)

function raw(sql: string, command: QueryCommand): CompiledQuery {
  const query = CompiledQuery.raw(sql)
  commands.set(query.query, command)
  return query
}

export const beginQuery = (mode: TransactionMode): CompiledQuery => raw(`begin ${mode}`, { kind: 'begin' })

export const endQuery = (sql: 'commit' | 'rollback'): CompiledQuery => raw(sql, { kind: 'end' })

/** Makes a query that stands for a batch. Its rows are the results. */
export const batchQuery = (batch: Omit<BatchCommand, 'kind'>): CompiledQuery =>
  raw(batch.queries.map(({ sql }) => sql).join(';\n'), { kind: 'batch', ...batch })

/** Writes a savepoint command as a query. */
export function savepointQuery(
  { verb, name }: Omit<SavepointCommand, 'kind'>,
  compile: QueryCompiler['compileQuery'],
): CompiledQuery {
  const node = RawNode.createWithChildren([RawNode.createWithSql(`${verb} `), IdentifierNode.create(name)])
  commands.set(node, { kind: 'savepoint', verb, name })
  return compile(node, createQueryId())
}
