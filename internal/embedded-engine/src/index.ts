export {
  type CursorListener,
  type DatabaseCall,
  DatabaseWorker,
  NotBegunError,
  type RunningCursor,
  type WorkerListener,
} from './database-worker.ts'
export { releaseFile } from './engine/database-files.ts'
export { forbiddenError } from './engine/statement-checks.ts'
export { TableAuthorizer } from './engine/table-authorizer.ts'
export { loadEngineModule } from './engine-module.ts'
export { concat, type JsonText, toBytes, toText } from './protocol/json-text.ts'
export type {
  CallOutcome,
  CallWork,
  DatabaseToOpen,
  Reply,
  TableChanges,
  WorkerRequest,
} from './protocol/worker-messages.ts'
export { NO_ATTACH_PERMISSION, NOT_ATTACHABLE } from './protocol/worker-messages.ts'
