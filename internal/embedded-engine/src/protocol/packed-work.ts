import type { BatchStep, Condition, PipelineRequest, StatementRequest } from '@batonsql/server-common/hrana'
import type { CallWork } from './worker-messages.ts'

/**
 * A step of a batch as a tuple. Objects take more than twice as long to send to a thread, because their keys are sent with each of
 * them. The condition is the number of a step if that step must have succeeded.
 */
export type PackedStep = readonly [
  sql: StatementRequest['sql'],
  sqlId: StatementRequest['sqlId'],
  args: StatementRequest['args'],
  namedArgs: StatementRequest['namedArgs'],
  wantRows: StatementRequest['wantRows'],
  condition: Condition | number | null,
]

/** A request of a pipeline whose steps are packed. */
export type PackedRequest =
  | Exclude<PipelineRequest, { readonly type: 'batch' }>
  | { readonly type: 'batch'; readonly steps: readonly PackedStep[] }

/** The work of a call, as it is sent to a worker. */
export type PackedWork =
  | Exclude<CallWork, { readonly type: 'pipeline' | 'cursor' }>
  | { readonly type: 'pipeline'; readonly requests: readonly PackedRequest[]; readonly version: 2 | 3 }
  | { readonly type: 'cursor'; readonly steps: readonly PackedStep[] }

/** Packs the work of a call. Replication indexes are left out, because only replicas use them. */
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
