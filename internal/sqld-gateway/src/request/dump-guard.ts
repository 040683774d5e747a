import { setImmediate as nextTurn } from 'node:timers/promises'
import { BackendRefusal } from '@batonsql/server-common/backend'
import { boundSearches, nextToken } from '@batonsql/server-common/sql'
import { findRefusal } from './sql-guard.ts'

/** Number of tokens to check before yielding to other requests. */
const MAX_TOKENS_AT_ONCE = 10_000

/** Returns a dump in the form that may be sent to the server. Rejects with a {@link BackendRefusal} if it is not allowed. */
export async function allowedDump(sql: string): Promise<string> {
  const allowed: string[] = []
  let start = 0
  let count = 0
  for (let token = nextToken(sql, 0); token !== null; token = nextToken(sql, token.end)) {
    count += 1
    const endsStatement = token.kind === 'symbol' && sql[token.start] === ';'
    if (!endsStatement || count < MAX_TOKENS_AT_ONCE) continue
    allowed.push(allowedPart(sql.slice(start, token.end)))
    start = token.end
    count = 0
    await nextTurn()
  }
  return allowed.join('') + allowedPart(sql.slice(start))
}

function allowedPart(given: string): string {
  const sql = boundSearches(given)
  const refusal = findRefusal(sql, { kind: 'run', mayWrite: true })
  if (refusal?.type === 'refused') throw new BackendRefusal(`the dump is not allowed: ${refusal.name}`)
  return sql
}
