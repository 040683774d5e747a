import { HttpError, ProtocolError } from '../base/errors.ts'
import { type Client, getHttp } from '../client/client.ts'
import type { CallOptions } from '../options.ts'
import { get } from './get.ts'

/** Whether a response is a page, such as the sign-in page of a proxy, and not from the server. */
const isPage = (text: string): boolean => /^\s*</.test(text)

/** Whether the server reports that it is healthy. @throws TransportError if it does not respond */
export async function isHealthy(db: Client, options?: CallOptions): Promise<boolean> {
  try {
    return !isPage(await get(getHttp(db), '/health', options))
  } catch (error) {
    if (error instanceof HttpError) return false
    throw error
  }
}

/**
 * Returns the name and version of the server, such as `sqld 0.24.32 (40c272de 2025-02-14)`.
 * @throws HttpError for a status other than 2xx; ProtocolError for an HTML page; TransportError if the server does not respond
 */
export async function serverVersion(db: Client, options?: CallOptions): Promise<string> {
  const text = await get(getHttp(db), '/version', options)
  if (isPage(text))
    throw new ProtocolError('the response is a page, not a version', { outcome: 'not_applied' })
  return text.trim()
}
