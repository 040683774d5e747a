import { Buffer } from 'node:buffer'
import { decodeBase64 as decodePortable } from './portable.ts'

/** From this length on, in characters, node's own decoder is faster: six times for a vector of 384 floats. */
const LONG_BASE64 = 200

/** Writes the standard alphabet, with padding. */
export const encodeBase64 = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64')

/** Reads the standard alphabet, with or without padding: the server omits it. @throws DOMException when it is not base64 */
export function decodeBase64(base64: string): Uint8Array {
  if (base64.length > LONG_BASE64 && base64.length % 4 !== 1) {
    const padding = base64.endsWith('==') ? 2 : Number(base64.endsWith('='))
    const bytes = new Uint8Array(((base64.length - padding) * 3) >> 2)
    // it skips invalid characters
    if (Buffer.from(bytes.buffer).write(base64, 'base64') === bytes.length) return bytes
  }
  return decodePortable(base64)
}
