import { Readable } from 'node:stream'
import { type BodyWatcher, type ServiceResponse, watchBody } from '@batonsql/server-common/http'
import { readBody, type UpstreamResponse } from './process/exchange.ts'

/** Headers of the server's responses that are passed on to clients. */
const RESPONSE_HEADERS = ['content-type', 'cache-control', 'server-timing'] as const

/**
 * Builds the response for a client from a response of the server.
 * @param watchers observe its body
 * @param onDisconnect whether to destroy the response or read it to its end if the client stops reading
 */
export async function buildClientResponse(
  response: UpstreamResponse,
  watchers: readonly BodyWatcher[] = [],
  onDisconnect: 'destroy' | 'drain' = 'destroy',
): Promise<ServiceResponse> {
  const { status } = response
  const headers: Record<string, string | string[]> = {}
  for (const name of RESPONSE_HEADERS) {
    const value = response.headers[name]
    if (value !== undefined) headers[name] = value
  }
  const body = watchBody(response.body, watchers, onDisconnect)
  // as text, in which the router replaces ids with names
  if (status >= 400)
    return { status, headers, body: (await readBody({ ...response, body })).toString('utf8') }
  const length = response.headers['content-length']
  // without it, the body would be sent with chunked encoding
  if (body instanceof Readable && length !== undefined) headers['content-length'] = length
  return { status, headers, body }
}
