import { refuseOldNode } from './base/supported-node.ts'

export type { RemoteSqldOptions } from './backend/backend.ts'
export type { PendingChange } from './control-plane/pending-changes.ts'
export type { Dialect } from './hrana/dialect.ts'
export { createUserInDirectory, exportFromDirectory } from './server/data-directory.ts'
export { createHandler, LocalHandler, type LocalHandlerOptions } from './server/handler.ts'
export { LocalPlatform, type NewPlatformUser } from './server/local-platform.ts'
export type { PlatformOptions } from './server/platform-server.ts'
export {
  type DatabaseAddress,
  LocalServer,
  type LocalServerOptions,
  startLocalServer,
} from './server/server.ts'
export type { DatabaseOptions, NewDatabaseOptions, TokenOptions } from './server/service.ts'

refuseOldNode()
