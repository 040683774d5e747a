// WebSockets are not needed: what had them goes over HTTP.

export * from '@libsql/core/api'
export {
  _createClient,
  baton,
  createClient,
  HttpClient as WsClient,
  HttpTransaction as WsTransaction,
} from './http.ts'
