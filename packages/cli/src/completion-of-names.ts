import type { Client } from '@batonsql/core'
import { DOT_COMMAND_NAMES } from './dot-commands.ts'

/** Names of tables, views and their columns. */
const NAMES = `select name from sqlite_schema where type in ('table', 'view')
  union select c.name from sqlite_schema s join pragma_table_info(s.name) c where s.type in ('table', 'view')`

/** Completes the last word of a line: a dot command, or the name of a table or a column. */
export async function complete(db: Client, line: string): Promise<[candidates: string[], word: string]> {
  const [word = ''] = /(?:^\s*\.)?[\p{L}\p{N}_$]*$/u.exec(line) ?? []
  if (word.trim().startsWith('.'))
    return [DOT_COMMAND_NAMES.filter((name) => name.startsWith(word.trim())), word]
  if (word === '') return [[], word]
  try {
    const { rows } = await db.execute(NAMES, [], { rowMode: 'array' })
    const names = rows.map(([name]) => String(name))
    return [names.filter((name) => name.toLowerCase().startsWith(word.toLowerCase())), word]
  } catch {
    // completes nothing, rather than interrupt the user
    return [[], word]
  }
}
