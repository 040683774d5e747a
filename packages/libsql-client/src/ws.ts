// WebSockets are not needed: what had them goes over HTTP.
import type { Config } from '@libsql/core/api'
import { expandConfig } from '@libsql/core/config'
import { _createClient, type ClientConfig, type HttpClient } from './http.ts'

export * from '@libsql/core/api'
export { _createClient, baton, HttpClient as WsClient, HttpTransaction as WsTransaction } from './http.ts'

/** Makes a client. @throws LibsqlError for a URL or an option that it cannot have */
export function createClient(config: ClientConfig): HttpClient {
  return _createClient(expandConfig(config as Config, false))
}
