import type { Readable } from 'node:stream'

/** A request to the server, from a socket or from `fetch`; its router passes those to databases on to a back end. */
export interface ServiceRequest {
  readonly method: string
  /** Path without query; begins with a slash. */
  readonly path: string
  /** Query with its question mark, or empty. */
  readonly query: string
  /** Header names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readable
  /** Address of the client; undefined for one in this process. */
  readonly remoteAddress: string | undefined
  /** Aborted when the client disconnects, and by a back end that aborts the request. */
  readonly controller: AbortController
}

/** A response. Its body is complete unless it is a `Readable`. */
export interface ServiceResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body: string | Buffer | Readable
  /** Called when the body has been sent to a socket, so that its memory can be used again. */
  readonly recycle?: () => void
  /** Whether a socket is closed instead of sending the response. */
  readonly isLost?: boolean
}

/** A response that closes the connection without sending anything. */
export const LOST_CONNECTION: ServiceResponse = { status: 502, headers: {}, body: '', isLost: true }

export function textResponse(status: number, contentType: string | null, body: string): ServiceResponse {
  return { status, headers: contentType === null ? {} : { 'content-type': contentType }, body }
}

/** Returns an error in the service's format, `{"error"}`. */
export function errorResponse(status: number, error: string): ServiceResponse {
  return textResponse(status, 'application/json', JSON.stringify({ error }))
}
