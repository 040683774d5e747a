import { identifier, scanSql, splitStatements, upper } from '../../sql/scanner.ts'

/** The id of a database that the sender of a request may attach, by its name. */
export type IdOfName = (name: string) => string | undefined

/** Puts ids in the place of names in ATTACH: the server knows databases by id only. */
export function attachById(sql: string, idOf: IdOfName): string {
  if (!/attach/i.test(sql)) return sql
  let text = sql
  // from the end, so that what is in front keeps its place
  for (const { tokens } of splitStatements(sql, scanSql(sql)).reverse()) {
    if (upper(sql, tokens[0]) !== 'ATTACH') continue
    const name = tokens[upper(sql, tokens[1]) === 'DATABASE' ? 2 : 1]
    const id = idOf(identifier(sql, name) ?? '')
    if (name !== undefined && id !== undefined)
      text = `${text.slice(0, name.start)}"${id}"${text.slice(name.end)}`
  }
  return text
}
