import type { Client } from '@batonsql/core'
import { DOT_COMMAND_NAMES } from './dot-commands.ts'

/** Reads the names of tables and views, and of the columns of those types. Internal tables are left out. */
const selectNames = (types: string): string => `with t as (select name, type from pragma_table_list
    where schema = 'main' and name not like 'sqlite\\_%' escape '\\' and name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table'))
  select name from t where type in ('table', 'view', 'virtual')
  union select c.name from t join pragma_table_xinfo(t.name) c where t.type in (${types}) and c.hidden <> 1`

/** Completes the last word of a line: a dot command at its beginning, or the name of a table or a column. */
export async function complete(db: Client, line: string): Promise<[candidates: string[], word: string]> {
  const word = findLastWord(line)
  if (word.trim().startsWith('.'))
    return [DOT_COMMAND_NAMES.filter((name) => name.startsWith(word.trim())), word]
  if (word === '') return [[], word]
  const names = await readNames(db)
  return [names.filter((name) => name.toLowerCase().startsWith(word.toLowerCase())), word]
}

/** Returns the word at the end of a line, which may be empty. That of a dot command includes the indentation, which it replaces. */
export function findLastWord(line: string): string {
  // without the lookbehind, the time would be quadratic in the length of a word before the last one
  return /(?:^\s*\.|(?<![\p{L}\p{N}_$]))[\p{L}\p{N}_$]*$/u.exec(line)?.[0] ?? ''
}

/** Returns the names that need no quotation marks; none if they cannot be read, rather than interrupt the user. */
async function readNames(db: Client): Promise<string[]> {
  // the columns of a view cannot be read if it refers to a table that does not exist
  for (const types of ["'table', 'virtual', 'view'", "'table'"]) {
    try {
      const { rows } = await db.execute(selectNames(types), [], { rowMode: 'array' })
      return rows.map(([name]) => String(name)).filter((name) => /^[\p{L}_][\p{L}\p{N}_$]*$/u.test(name))
    } catch {
      // tried without views
    }
  }
  return []
}
