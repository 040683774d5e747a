import { refuseOldNode } from './supported-node.ts'

export type { OpenChange } from './control-plane/repeats.ts'
export type { Dialect } from './dialect.ts'
export { createHandler, LocalHandler, type LocalHandlerOptions } from './handler.ts'
export { LocalPlatform, type NewPlatformUser } from './local-platform.ts'
export type { PlatformOptions } from './platform-server.ts'
export {
  type DatabaseAddress,
  LocalServer,
  type LocalServerOptions,
  startLocalServer,
} from './server.ts'
export type { DatabaseOptions, NewDatabaseOptions, TokenOptions } from './service.ts'
export type { RemoteSqldOptions } from './sqld/remote.ts'

refuseOldNode()
