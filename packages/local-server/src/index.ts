export type { PendingChange } from '@batonsql/control-plane'
export type { RemoteSqldOptions } from '@batonsql/server-common/backend'
export type { Dialect } from '@batonsql/server-common/hrana'
export { createUserInDirectory, exportFromDirectory } from './server/data-directory.ts'
export type { Failure, FailureKind, FailureOptions } from './server/failure-options.ts'
export { createHandler, type LocalHandler, type LocalHandlerOptions } from './server/handler.ts'
export { LocalPlatform, type NewPlatformUser } from './server/local-platform.ts'
export type { PlatformOptions } from './server/platform-options.ts'
export { type DatabaseAddress, LocalServer, startLocalServer } from './server/server.ts'
export type {
  DatabaseOptions,
  InitialDatabases,
  LocalServerOptions,
  NewDatabaseOptions,
  Snapshot,
  TokenOptions,
} from './server/server-options.ts'
