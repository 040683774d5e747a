// The names of `@libsql/client/ws`. There are no WebSockets: a `ws:` URL uses HTTP.
import { type ClientConfig, expand } from './expand.ts'
import { _createClient, type HttpClient } from './http.ts'

export * from '@libsql/core/api'
export { _createClient, baton, HttpClient as WsClient, HttpTransaction as WsTransaction } from './http.ts'

/** Creates a client. @throws LibsqlError for an invalid URL or option */
export function createClient(config: ClientConfig): HttpClient {
  return _createClient(expand(config, false))
}
