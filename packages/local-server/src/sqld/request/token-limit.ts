import { PipelineFailure } from '../../hrana/pipeline-failure.ts'
import type { PipelineRequest } from '../../hrana/pipeline-types.ts'
import { nextToken } from '../../sql/scanner.ts'

/** Tokens of SQL in one request; checking them takes about a second, during which no other request is served. */
export const MAX_TOKENS = 1_000_000

/** Rejects requests with more SQL than the guard checks in one go. @throws PipelineFailure with status 413 */
export function checkTokenCount(requests: readonly PipelineRequest[]): void {
  const texts = requests.flatMap(textsOf)
  // a token has a character at least, so that most requests need no counting
  if (texts.reduce((sum, { length }) => sum + length, 0) <= MAX_TOKENS) return
  let left = MAX_TOKENS
  for (const sql of texts) {
    for (let token = nextToken(sql, 0); token !== null; token = nextToken(sql, token.end)) {
      left -= 1
      if (left < 0) throw PipelineFailure.service(413, TOO_MANY)
    }
  }
}

const TOO_MANY = `the SQL of one request has at most ${MAX_TOKENS.toLocaleString('en')} tokens here: send it in several requests`

function textsOf(request: PipelineRequest): readonly string[] {
  switch (request.type) {
    case 'execute':
      return textOf(request.statement)
    case 'batch':
      return request.steps.flatMap(({ statement }) => textOf(statement))
    case 'sequence':
    case 'describe':
    case 'store_sql':
      return textOf(request)
    case 'close_sql':
    case 'get_autocommit':
    case 'close':
      return []
    default:
      return request satisfies never
  }
}

const textOf = ({ sql }: { readonly sql: string | null }): readonly string[] => (sql === null ? [] : [sql])
