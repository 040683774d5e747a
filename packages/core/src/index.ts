export type { TransactionMode } from './batch.ts'
export { type AtomicBatchOptions, Client, createClient, type TransactionOptions } from './client.ts'
export type { ClientConfig } from './config.ts'
export { readRows } from './cursor.ts'
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
export type { BatchOptions, Executor, StatementOptions } from './executor.ts'
export type { CallOptions } from './http.ts'
export { locateRefusal } from './refusal.ts'
export { type ArrayRow, type ObjectRow, ResultSet, type RowMode } from './result.ts'
export { type ScriptStatement, splitStatements } from './script.ts'
export type { InArgs, InStatement } from './statement.ts'
export type { Stream } from './stream.ts'
export type { Transaction } from './transaction.ts'
export type { Fetch } from './transport/transport.ts'
export type { IntMode, InValue, Value } from './value.ts'
export { decodeVector, encodeVector, type InVector } from './vector.ts'
