import { type CompiledQuery, createQueryId, IdentifierNode, type QueryCompiler, RawNode } from 'kysely'

export interface SavepointCommand {
  readonly verb: 'savepoint' | 'rollback to' | 'release'
  readonly name: string
}

const commands = new WeakMap<object, SavepointCommand>()

/** Writes the command as a query, so that it shows up in Kysely's log, and so that it is known again. */
export function savepointQuery(
  command: SavepointCommand,
  compile: QueryCompiler['compileQuery'],
): CompiledQuery {
  const { verb, name } = command
  const node = RawNode.createWithChildren([RawNode.createWithSql(`${verb} `), IdentifierNode.create(name)])
  commands.set(node, command)
  return compile(node, createQueryId())
}

/** The savepoint command that a query stands for, if it does. */
export const savepointCommand = ({ query }: CompiledQuery): SavepointCommand | undefined =>
  commands.get(query)
