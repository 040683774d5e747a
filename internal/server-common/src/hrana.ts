// Hrana is the protocol that libSQL clients use over HTTP: pipelines of requests on streams, in JSON. This is what other
// packages use of it, with the permissions of its requests.
export { DIALECTS, type Dialect } from './hrana/dialect.ts'
export { JsonShapeError } from './hrana/json-shape.ts'
export { FULL_PERMISSIONS, INTERNAL_PERMISSIONS } from './hrana/permissions.ts'
export { type FailureContentType, PipelineFailure } from './hrana/pipeline-failure.ts'
export type {
  BatchStep,
  Condition,
  EngineValue,
  Permissions,
  Pipeline,
  PipelineRequest,
  SqlReference,
  StatementRequest,
  TablePermission,
} from './hrana/pipeline-types.ts'
export {
  type CursorBody,
  decodeCursorBody,
  decodePipelineBody,
  type PipelineBody,
  readBodyText,
} from './hrana/request-decoder.ts'
export { encodeCursorBody, encodePipelineBody } from './hrana/request-encoder.ts'
export { encodeError, formatInternalMessage, ResultError } from './hrana/result-error.ts'
export { TABLE_ACTIONS, type TableAction } from './hrana/table-actions.ts'
