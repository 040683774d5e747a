import type { BatchStep, PipelineRequest } from '@batonsql/server-common/hrana'
import type { CallWork, PackedRequest, PackedStep, PackedWork } from './worker-messages.ts'

/** Packs the steps of batches and cursors as tuples. Their replication indexes are omitted, because only replicas use them. */
export function packWork(work: CallWork): PackedWork {
  if (work.type === 'cursor') return { ...work, steps: work.steps.map(packStep) }
  if (work.type === 'pipeline') return { ...work, requests: work.requests.map(packRequest) }
  return work
}

function packRequest(request: PipelineRequest): PackedRequest {
  return request.type === 'batch' ? { type: 'batch', steps: request.steps.map(packStep) } : request
}

export function unpackRequest(request: PackedRequest): PipelineRequest {
  return request.type === 'batch' ? { type: 'batch', steps: request.steps.map(unpackStep) } : request
}

function packStep({ statement, condition }: BatchStep): PackedStep {
  const { sql, sqlId, args, namedArgs, wantRows } = statement
  return [sql, sqlId, args, namedArgs, wantRows, condition?.type === 'ok' ? condition.step : condition]
}

export function unpackStep([sql, sqlId, args, namedArgs, wantRows, condition]: PackedStep): BatchStep {
  return {
    statement: { sql, sqlId, args, namedArgs, wantRows },
    condition: typeof condition === 'number' ? { type: 'ok', step: condition } : condition,
  }
}
