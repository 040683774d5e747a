import type { Deadline } from '../base/deadline.ts'
import type { WireStreamResult } from '../base/wire.ts'
import { type Http } from '../http/http.ts'
import type { Permit } from '../http/limiter.ts'
import { type SendResult } from '../http/message.ts'
import type { SqlRequest } from '../request/sql-request.ts'

/** The results of the operations of a request. */
export type StreamResults = readonly (WireStreamResult | undefined)[]

/** Encodes the operations of a request. @param index replication index, if the request carries one */
export type Encode = (index: string | null) => readonly string[]

/** Whether the stream holds the write lock or the request may acquire it, and the write permit of the stream. */
export interface LockUse {
  readonly mayHoldLock: boolean
  readonly permit: Permit | null
}

/** A request, and how it is sent. */
export interface Sending {
  readonly request: SqlRequest
  /** Whether it also closes the stream. */
  readonly close: boolean
  readonly lock: LockUse
  /** The earliest deadline of its calls. */
  readonly deadline: Deadline
  /** Aborted when one of its calls is. */
  readonly signal: AbortSignal | undefined
}

/** Sends the requests of one stream. */
export interface SendingStream {
  readonly http: Http
  /** Continues the stream; null while the server has none, as far as the client knows. */
  readonly baton: string | null
  /** Sends operations on the stream. @param encode encodes them; by default those of the request */
  post(sending: Sending, encode?: Encode): Promise<SendResult<StreamResults>>
}
