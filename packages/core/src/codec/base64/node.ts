import { Buffer } from 'node:buffer'
import { decodeBase64 as decodePortable } from './portable.ts'

/** Length in characters above which Node's decoder is faster: six times as fast for a vector of 384 floats. */
const LONG_BASE64 = 200

/** Encodes with the standard alphabet and padding. */
export const encodeBase64 = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64')

/** Decodes the standard alphabet; padding is optional, and the server omits it. @throws DOMException if the text is not base64 */
export function decodeBase64(base64: string): Uint8Array {
  if (base64.length > LONG_BASE64 && base64.length % 4 !== 1) {
    const padding = base64.endsWith('==') ? 2 : Number(base64.endsWith('='))
    const bytes = new Uint8Array(((base64.length - padding) * 3) >> 2)
    // fewer bytes if Node skipped invalid characters
    if (Buffer.from(bytes.buffer).write(base64, 'base64') === bytes.length) return bytes
  }
  return decodePortable(base64)
}
