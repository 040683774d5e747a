import type { Readable } from 'node:stream'

/** A request for the gateway and the back ends, from a socket or from `fetch`. */
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
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal
}

/** A response. A body that is not text is streamed. */
export interface ServiceResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string | Readable
}

/** Returns a response with a text. */
export function textResponse(status: number, contentType: string | null, body: string): ServiceResponse {
  return { status, headers: contentType === null ? {} : { 'content-type': contentType }, body }
}

/** Returns an error in the service's format, `{"error"}`. */
export function errorResponse(status: number, error: string): ServiceResponse {
  return textResponse(status, 'application/json', JSON.stringify({ error }))
}

/** Maximum size of a request body, in bytes; libsql-server has no such limit. */
const MAX_BODY_BYTES = 256 * 1_024 ** 2

/** The body of a request exceeds the maximum size. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError'
}

/** Reads a body completely. @throws BodyTooLargeError */
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
