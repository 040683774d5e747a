// WebSockets are not needed: these URLs use HTTP.
import type { Config } from '@libsql/core/api'
import { expandConfig } from '@libsql/core/config'
import { _createClient, type ClientConfig, type HttpClient } from './http.ts'

export * from '@libsql/core/api'
export { _createClient, baton, HttpClient as WsClient, HttpTransaction as WsTransaction } from './http.ts'

/** Creates a client. @throws LibsqlError for an invalid URL or option */
export function createClient(config: ClientConfig): HttpClient {
  return _createClient(expandConfig(config as Config, false))
}
