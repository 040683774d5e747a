import { HttpError } from '../base/errors.ts'
import { type Client, getHttp } from '../client/client.ts'
import type { CallOptions } from '../options.ts'
import { get } from './get.ts'

/** Whether the server reports that it is healthy. @throws TransportError if it does not respond */
export async function isHealthy(db: Client, options?: CallOptions): Promise<boolean> {
  try {
    await get(getHttp(db), '/health', options)
    return true
  } catch (error) {
    if (error instanceof HttpError) return false
    throw error
  }
}

/** Returns the name and version of the server, such as `sqld 0.24.32 (40c272de 2025-02-14)`. */
export async function serverVersion(db: Client, options?: CallOptions): Promise<string> {
  return (await get(getHttp(db), '/version', options)).trim()
}
