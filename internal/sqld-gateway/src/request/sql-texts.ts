import type { PipelineRequest } from '@batonsql/server-common/hrana'

/** Returns the SQL in requests, without SQL that is stored on the stream and executed by its number. */
export function getSqlTexts(requests: readonly PipelineRequest[]): readonly string[] {
  return requests.flatMap((request) => {
    if (request.type === 'batch') return request.steps.flatMap(({ statement }) => statement.sql ?? [])
    if (request.type === 'execute') return request.statement.sql ?? []
    return ('sql' in request && request.sql) || []
  })
}
