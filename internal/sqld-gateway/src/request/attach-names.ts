import { getKeyword, scanSql, splitStatements, unquoteIdentifier } from '@batonsql/server-common/sql'

/** Returns the id of the database with this name; undefined unless the sender of the request may attach it. */
export type ResolveName = (name: string) => string | undefined

/** Replaces names in ATTACH with ids, because the server identifies databases only by id. */
export function replaceAttachNames(sql: string, resolveName: ResolveName): string {
  if (!/attach/i.test(sql)) return sql
  const pieces: string[] = []
  let copiedEnd = 0
  for (const { tokens } of splitStatements(sql, scanSql(sql))) {
    if (getKeyword(sql, tokens[0]) !== 'ATTACH') continue
    const name = tokens[getKeyword(sql, tokens[1]) === 'DATABASE' ? 2 : 1]
    const id = resolveName(unquoteIdentifier(sql, name) ?? '')
    if (name === undefined || id === undefined) continue
    pieces.push(sql.slice(copiedEnd, name.start), `"${id}"`)
    copiedEnd = name.end
  }
  return pieces.join('') + sql.slice(copiedEnd)
}
