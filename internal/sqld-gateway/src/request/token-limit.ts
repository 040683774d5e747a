import { PipelineFailure, type PipelineRequest } from '@batonsql/server-common/hrana'
import { visitTokens } from '@batonsql/server-common/sql'

/** Maximum number of SQL tokens in a request; checking them takes about a second, which blocks other requests. */
export const MAX_TOKENS = 1_000_000
/** Maximum number of literals in the rows of VALUES, which are scanned but not checked one by one. */
export const MAX_LITERALS = 1_500_000
/** Memory that libsql-server takes for a literal or another token. */
const TOKEN_COST = 600

/**
 * Rejects requests with more SQL than the guard checks at once. @returns the memory that libsql-server takes to parse the SQL
 * @throws PipelineFailure with status 413
 */
export function checkTokenCount(requests: readonly PipelineRequest[]): number {
  let tokens = 0
  let literals = 0
  const countToken = (): void => {
    tokens += 1
    if (tokens > MAX_TOKENS) throw tooMuchSql(MAX_TOKENS, 'tokens outside of rows of literals')
  }
  const countLiteral = (): void => {
    literals += 1
    if (literals > MAX_LITERALS) throw tooMuchSql(MAX_LITERALS, 'literals in the rows of VALUES')
  }
  for (const sql of requests.flatMap(getSqlTexts)) visitTokens(sql, countToken, countLiteral)
  return (tokens + literals) * TOKEN_COST
}

function tooMuchSql(limit: number, things: string): PipelineFailure {
  const message = `the SQL of a request is limited to ${limit.toLocaleString('en')} ${things}; send it in several requests`
  return PipelineFailure.service(413, message)
}

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
