import { PipelineFailure, type PipelineRequest } from '@batonsql/server-common/hrana'
import { nextToken } from '@batonsql/server-common/sql'

/** Maximum number of SQL tokens in a request; checking them takes about a second, which blocks other requests. */
export const MAX_TOKENS = 1_000_000

/** Rejects requests with more SQL than the guard checks at once. @throws PipelineFailure with status 413 */
export function checkTokenCount(requests: readonly PipelineRequest[]): void {
  let remaining = MAX_TOKENS
  for (const sql of requests.flatMap(getSqlTexts)) {
    for (let token = nextToken(sql, 0); token !== null; token = nextToken(sql, token.end)) {
      remaining -= 1
      if (remaining < 0) throw PipelineFailure.service(413, TOO_MANY_TOKENS)
    }
  }
}

const TOO_MANY_TOKENS = `the SQL of a request is limited to ${MAX_TOKENS.toLocaleString('en')} tokens; send it in several requests`

function getSqlTexts(request: PipelineRequest): readonly string[] {
  switch (request.type) {
    case 'execute':
      return toTexts(request.statement)
    case 'batch':
      return request.steps.flatMap(({ statement }) => toTexts(statement))
    case 'sequence':
    case 'describe':
    case 'store_sql':
      return toTexts(request)
    case 'close_sql':
    case 'get_autocommit':
    case 'close':
      return []
    default:
      return request satisfies never
  }
}

const toTexts = ({ sql }: { readonly sql: string | null }): readonly string[] => (sql === null ? [] : [sql])
