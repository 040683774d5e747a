import type { SqlToken } from './sql-tokens.ts'

/** Matches the names of pragmas that change nothing, not even with an argument; `HARMLESS_PRAGMA` has those that do not write without one. */
export const READ_ONLY_PRAGMA =
  /^(?:table_list|table_x?info|index_list|index_x?info|pragma_list|compile_options|database_list|function_list|module_list|foreign_key_list|foreign_key_check|integrity_check|quick_check|collation_list)$/i

export interface Pragma {
  readonly name: string
  readonly hasArgument: boolean
}

/** Returns the name of a PRAGMA, which may be qualified by a database in the statement, and whether it has an argument. */
export function readPragma(statement: readonly SqlToken[]): Pragma {
  const isQualified = statement[2]?.text === '.'
  return {
    name: statement[isQualified ? 3 : 1]?.text ?? '',
    hasArgument: statement.length > (isQualified ? 4 : 2),
  }
}
