export { type AtomicBatchOptions, Client, createClient, type TransactionOptions } from './client.ts'
export type { TransactionMode } from './codec/batch.ts'
export { type ArrayRow, type ObjectRow, ResultSet, type RowMode } from './codec/result.ts'
export type { InArgs, InStatement } from './codec/statement.ts'
export type { IntMode, InValue, Value } from './codec/value.ts'
export type { ClientConfig, CoalesceOptions } from './config.ts'
export { describe, type StatementDescription } from './database-api/describe.ts'
export { type Dump, type DumpOptions, dump } from './database-api/dump.ts'
export {
  type Job,
  type JobList,
  type JobStatus,
  jobs,
  type TaskStatus,
  type WaitForJobOptions,
} from './database-api/jobs.ts'
export { type ChangeAction, type ChangeEvent, type ListenOptions, listen } from './database-api/listen.ts'
export { type RestoreOptions, type RestoreProgress, restore } from './database-api/restore.ts'
export { RestoreError } from './database-api/restore-error.ts'
export type { ScriptSource } from './database-api/statement-reader.ts'
export {
  type ConstraintViolation,
  DatabaseError,
  HttpError,
  type Outcome,
  ProtocolError,
  SqlError,
  StreamError,
  TransportError,
} from './errors.ts'
export type { ClientEvent, Observe } from './events.ts'
export { executeMultiple } from './execute-multiple.ts'
export { failWhen, isFailedAssertion } from './failed-assertion.ts'
export { findFailingStatement } from './find-failing-statement.ts'
export type { BatchOptions, CallOptions, Executor, StatementOptions } from './options.ts'
export { readRows } from './read-rows.ts'
export { type ScriptStatement, splitStatements } from './script.ts'
export type { Stream } from './stream/stream.ts'
export type { Transaction } from './transaction.ts'
export type { Fetch } from './transport/transport.ts'
export { decodeVector, encodeVector, type InVector } from './vector.ts'
export {
  findDatabaseError,
  isCheckViolation,
  isForeignKeyViolation,
  isNotNullViolation,
  isUniqueViolation,
} from './violation.ts'
