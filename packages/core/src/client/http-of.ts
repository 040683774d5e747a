import type { Http } from '../http/http.ts'
import type { Client } from './client.ts'
import { stateOf } from './stream.ts'

/** What sends the requests of a client. Sends nothing: a stream is opened by its first request. */
export const httpOf = (db: Client): Http => stateOf(db.openStream()).http
