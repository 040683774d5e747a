import type { PipelineRequest, SqlReference } from '@batonsql/server-common/hrana'
import { parseStatements } from '@batonsql/server-common/sql'

/** Longer SQL counts as a write: parsing it here would delay requests to other databases. */
const MAX_PARSED_CHARACTERS = 100_000

/** Whether requests may write. @param continuesStream whether they continue a stream, whose transaction they may commit */
export function mayWrite(requests: readonly PipelineRequest[], continuesStream: boolean): boolean {
  const referenceMayWrite = ({ sql, sqlId }: SqlReference): boolean =>
    sql === null ? sqlId !== null : textMayWrite(sql, continuesStream)
  return requests.some((request) => {
    if (request.type === 'batch') return request.steps.some(({ statement }) => referenceMayWrite(statement))
    if (request.type === 'execute') return referenceMayWrite(request.statement)
    return request.type === 'sequence' && referenceMayWrite(request)
  })
}

function textMayWrite(text: string, continuesStream: boolean): boolean {
  if (text.length > MAX_PARSED_CHARACTERS) return true
  try {
    return parseStatements(text).some(
      ({ access, needsWriteLock, kind }) =>
        access === 'write' || needsWriteLock || (kind === 'end' && continuesStream),
    )
  } catch {
    return false // rejected before it is executed
  }
}
