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
export { BatonAdapter } from './adapter.ts'
export { type Batchable, type BatchOptions, type BatchResults, batch } from './batch.ts'
export { BatonConnection } from './connection.ts'
export { BatonDialect } from './dialect.ts'
export type { BatonDialectConfig, DialectOptions } from './dialect-config.ts'
export { BatonDriver } from './driver.ts'
export { jsonArrayFrom, jsonBuildObject, jsonObjectFrom } from './exact-json.ts'
export { ExactJSONResultsPlugin, type ExactJSONResultsPluginOptions } from './exact-json-plugin.ts'
export { BatonIntrospector } from './introspector.ts'
export { optimistic } from './optimistic.ts'
export { BatonQueryCompiler } from './query-compiler.ts'
export { cosineDistance, euclideanDistance, nearest, vectorType } from './vector.ts'
