import { setImmediate as nextTurn } from 'node:timers/promises'
import { BackendRejection } from '@batonsql/server-common/backend'
import { limitVectorSearches, nextToken } from '@batonsql/server-common/sql'
import { findRejection } from './sql-guard.ts'

/** Number of tokens to check before yielding to other requests. */
const MAX_TOKENS_AT_ONCE = 10_000

/** Returns a dump in the form that may be sent to the server. Rejects with a {@link BackendRejection} if it is not allowed. */
export async function guardDump(sql: string): Promise<string> {
  const parts: string[] = []
  let start = 0
  let count = 0
  for (let token = nextToken(sql, 0); token !== null; token = nextToken(sql, token.end)) {
    count += 1
    const endsStatement = token.kind === 'symbol' && sql[token.start] === ';'
    if (!endsStatement || count < MAX_TOKENS_AT_ONCE) continue
    parts.push(guardPart(sql.slice(start, token.end)))
    start = token.end
    count = 0
    await nextTurn()
  }
  return parts.join('') + guardPart(sql.slice(start))
}

function guardPart(part: string): string {
  const sql = limitVectorSearches(part)
  const rejection = findRejection(sql, { kind: 'run', mayWrite: true })
  if (rejection?.type === 'rejected') throw new BackendRejection(`the dump is not allowed: ${rejection.name}`)
  return sql
}
