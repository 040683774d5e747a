// Exports shared by the entry points for all Drizzle versions.
export {
  ConflictError,
  type ConstraintViolation,
  DatabaseError,
  findDatabaseError,
  findViolation,
  HttpError,
  isCheckViolation,
  isForeignKeyViolation,
  isNotNullViolation,
  isUniqueViolation,
  type OptimisticOptions,
  ProtocolError,
  SqlError,
  StreamError,
  TransportError,
  type ViolationError,
} from '@batonsql/core'
export { type BatchConfig, type BatchMethod, type BatchQuery, type BatchResults, bind } from './batch.ts'
export { int64, vector } from './columns.ts'
export { cosineDistance, euclideanDistance } from './distance.ts'
export { optimistic } from './optimistic.ts'
export type { RunResult } from './results.ts'
