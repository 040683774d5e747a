export { type Dump, type DumpOptions, dump } from './backup/dump.ts'
export { exportFile } from './backup/export-file.ts'
export { type RestoreOptions, type RestoreProgress, restore } from './backup/restore.ts'
export type { ScriptSource } from './backup/statement-reader.ts'
export {
  ConflictError,
  type ConstraintViolation,
  DatabaseError,
  type DatabaseOutcome,
  HttpError,
  ProtocolError,
  RestoreError,
  SqlError,
  type SqlErrorCode,
  StreamError,
  TransportError,
} from './base/errors.ts'
export {
  findDatabaseError,
  findViolation,
  isCheckViolation,
  isForeignKeyViolation,
  isNotNullViolation,
  isUniqueViolation,
  type ViolationError,
} from './base/violation.ts'
export { Client, createClient, type TransactionOptions } from './client/client.ts'
export { executeMultiple } from './client/execute-multiple.ts'
export { readRows } from './client/read-rows.ts'
export type { Executor } from './client/sql-executor.ts'
export type { Transaction } from './client/transaction.ts'
export type { TransactionMode } from './codec/control.ts'
export { type ArrayRow, type ObjectRow, ResultSet, type RowMode } from './codec/result.ts'
export { type SqlFragment, type SqlPart, type SqlTemplate, sql } from './codec/sql-template.ts'
export type { InArgs, InStatement } from './codec/statement.ts'
export { type IntMode, type InValue, RealValue, type Value } from './codec/value.ts'
export { decodeVector, encodeVector, type InVector } from './codec/vector.ts'
export type { ClientConfig, Coalesce } from './config.ts'
export { describe, type StatementDescription } from './endpoints/describe.ts'
export {
  type Job,
  type JobList,
  type JobStatus,
  jobs,
  type TaskStatus,
  type WaitForJobOptions,
} from './endpoints/jobs.ts'
export { type ChangeAction, type ChangeEvent, type ListenOptions, listen } from './endpoints/listen.ts'
export { isHealthy, serverVersion } from './endpoints/server-status.ts'
export type { ClientEvent, Observe } from './observe/events.ts'
export {
  type OptimisticOptions,
  type OptimisticReader,
  optimistic,
} from './optimistic/optimistic.ts'
export type {
  AtomicBatchOptions,
  BatchOptions,
  CallOptions,
  RowsOptions,
  StatementOptions,
} from './options.ts'
export { coalesce } from './request/coalescer.ts'
export type { Fetch } from './transport/transport.ts'
