import type { Readable } from 'node:stream'

/** A request as the gateway and the back ends see it, from a socket or from `fetch`. */
export interface ServiceRequest {
  readonly method: string
  /** Path without query, beginning with a slash. */
  readonly path: string
  /** The query with its question mark, or empty. */
  readonly query: string
  /** Header names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readable
  /** Where the client is; undefined for one in this process. */
  readonly remoteAddress: string | undefined
  /** Aborts when the client has left. */
  readonly signal: AbortSignal
}

/** What is answered. A body that is not text is streamed as it comes. */
export interface ServiceResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string | Readable
}

/** A response with text. */
export function textResponse(status: number, contentType: string | null, body: string): ServiceResponse {
  return { status, headers: contentType === null ? {} : { 'content-type': contentType }, body }
}

/** The service's own shape of an error outside of results: `{"error"}`. */
export function errorResponse(status: number, error: string): ServiceResponse {
  return textResponse(status, 'application/json', JSON.stringify({ error }))
}

/** Largest body of a request to a database, in bytes; libsql-server has no such limit. */
const MAX_BODY_BYTES = 256 * 1_024 ** 2

/** A body is larger than the server keeps in its memory. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError'
}

/** Reads a body to its end. @throws BodyTooLargeError */
export async function readBytes(body: Readable): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of body) {
    size += (part as Buffer).length
    if (size > MAX_BODY_BYTES) throw new BodyTooLargeError('the body of the request is too large')
    parts.push(part as Buffer)
  }
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
}
