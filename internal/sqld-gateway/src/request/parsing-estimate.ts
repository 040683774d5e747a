import { PipelineFailure, type PipelineRequest } from '@batonsql/server-common/hrana'
import { visitTokens } from '@batonsql/server-common/sql'

/**
 * Maximum number of SQL tokens in a request, outside of rows of literals. The check of that many by the SQL guard takes about a second,
 * during which other requests wait. A body with at most this number of characters cannot have more, and is not estimated.
 */
export const MAX_TOKENS = 1_000_000
/**
 * Maximum number of literals in the rows of VALUES, which the guard skips. Counting that many takes more than a second, too. Literals of
 * a row that turns out to contain something else also count as tokens, so the estimate can be too high.
 */
export const MAX_LITERALS = 1_500_000
/** Memory that libsql-server takes to parse each literal and each other token, as measured with an INSERT of many rows. */
const TOKEN_BYTES = 600

/**
 * Estimates the memory that libsql-server takes to parse the SQL of requests, in bytes. Does not count SQL that is executed by its stored
 * id: the server stores at most 5 kB of text for each.
 * @throws PipelineFailure with status 413 if the SQL has too many tokens or literals
 */
export function estimateParsingBytes(requests: readonly PipelineRequest[]): number {
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
  return (tokens + literals) * TOKEN_BYTES
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
