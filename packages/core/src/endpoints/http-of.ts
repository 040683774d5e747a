import type { Client } from '../client/client.ts'
import { stateOf } from '../client/stream.ts'
import type { Http } from '../http/http.ts'

/** What sends the requests of a client. Sends nothing: a stream is opened by its first request. */
export const httpOf = (db: Client): Http => stateOf(db.openStream()).http
