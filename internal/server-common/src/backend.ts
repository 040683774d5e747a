export {
  BackendError,
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSettings,
  type DatabaseSource,
  DEFAULT_SETTINGS,
  describeBlock,
  type QueryUsage,
  type RemoteSqldOptions,
  ReplicaStartError,
  type RevokedAccess,
  type SchemaRole,
  type UsageSample,
} from './backend/backend.ts'
export { copyDatabaseFile, SMALL_FILE_BYTES } from './backend/copy-database-file.ts'
export { getFileSize, hasDatabaseFile, MissingFileError } from './backend/database-file.ts'
export { newDatabaseId } from './backend/database-id.ts'
export {
  buildExportResponse,
  type ExportedFile,
  isExportRoute,
  type RunningExports,
} from './backend/export-response.ts'
export { PROBE, probeDatabase } from './backend/probe-database.ts'
export { type ReplicaCondition, ReplicaConditions, type ReplicaLag } from './backend/replica-conditions.ts'
export { RESERVED_NAMES } from './backend/reserved-names.ts'
export {
  type RunningRequest,
  RunningRequests,
  revokedBeforeStartResponse,
  revokedResponse,
  withTimeLimit,
} from './backend/running-requests.ts'
export { getSetAsideFolder, setAside } from './backend/set-aside.ts'
