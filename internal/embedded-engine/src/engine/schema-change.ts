import type { Statement } from '@batonsql/server-common/sql'

/** Kinds of statements that may change the schema; an unknown statement may do anything. */
const SCHEMA_CHANGING_KINDS: ReadonlySet<string> = new Set(['schema', 'unknown'])

/**
 * Whether a statement, or the one it explains, may change the schema already when it is compiled. In libSQL, compiling a change to a
 * vector index does, even if the authorizer then denies it.
 */
export function changesSchema(statement: Statement): boolean {
  return SCHEMA_CHANGING_KINDS.has(statement.explains ?? statement.kind)
}
