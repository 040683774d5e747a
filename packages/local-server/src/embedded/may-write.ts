import type { PipelineRequest, SqlReference } from '@batonsql/server-common/hrana'
import { parseStatements } from '@batonsql/server-common/sql'

/** Longer SQL counts as a write: parsing it here would delay requests to other databases. */
const MAX_PARSED_CHARACTERS = 100_000

/** Whether requests may write. @param continues whether they continue a stream, whose transaction they may commit */
export function mayWrite(requests: readonly PipelineRequest[], continues: boolean): boolean {
  const writes = ({ sql, sqlId }: SqlReference): boolean =>
    sql === null ? sqlId !== null : textMayWrite(sql, continues)
  return requests.some((request) => {
    if (request.type === 'batch') return request.steps.some(({ statement }) => writes(statement))
    if (request.type === 'execute') return writes(request.statement)
    return request.type === 'sequence' && writes(request)
  })
}

function textMayWrite(text: string, continues: boolean): boolean {
  if (text.length > MAX_PARSED_CHARACTERS) return true
  try {
    return parseStatements(text).some(
      ({ access, needsWriteLock, kind }) =>
        access === 'write' || needsWriteLock || (kind === 'end' && continues),
    )
  } catch {
    return false // rejected before it is executed
  }
}
