export {
  type ConstraintViolation,
  DatabaseError,
  findDatabaseError,
  HttpError,
  isCheckViolation,
  isForeignKeyViolation,
  isNotNullViolation,
  isUniqueViolation,
  ProtocolError,
  SqlError,
  StreamError,
  TransportError,
} from '@batonsql/core'
export { type BatchConfig, type BatchMethod, type BatchQuery, type BatchResults, bind } from '../batch.ts'
export { int64, vector } from '../columns.ts'
export { cosineDistance, euclideanDistance } from '../distance.ts'
export type { RunResult } from '../values.ts'
export { BatonDatabase, type BatonDrizzleConfig, drizzle } from './driver.ts'
export { BatonPreparedQuery } from './prepared-query.ts'
export { BatonSession } from './session.ts'
export { BatonTransaction } from './transaction.ts'
