import { parseStatements } from './engine/sql/statement.ts'
import type { PipelineRequest } from './protocol/pipeline-types.ts'

/** Whether all that a pipeline runs is queries, told from their text. The engine of a reader changes nothing anyway. */
export function onlyReads(requests: readonly PipelineRequest[]): boolean {
  return requests.every((request) => {
    switch (request.type) {
      case 'execute':
        return isQuery(request.statement.sql)
      case 'batch':
        return request.steps.every(({ statement }) => isQuery(statement.sql))
      case 'get_autocommit':
      case 'close':
        return true
      default:
        return false
    }
  })
}

function isQuery(sql: string | null): boolean {
  if (sql === null) return false // a stored text
  try {
    return parseStatements(sql).every(({ kind, access }) => kind === 'query' && access === 'read')
  } catch {
    return false // the writer says what is wrong with it
  }
}
