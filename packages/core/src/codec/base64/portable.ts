/** Engines limit the number of arguments of a function. */
const CHUNK_BYTES = 0x2000

/** Encodes with the standard alphabet and padding. */
export function encodeBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    binary += String.fromCharCode(...bytes.subarray(start, start + CHUNK_BYTES))
  }
  return btoa(binary)
}

/** Decodes the standard alphabet; padding is optional, and the server omits it. @throws DOMException if the text is not base64 */
export function decodeBase64(base64: string): Uint8Array {
  const binary = atob(base64)
  const bytes = new Uint8Array(binary.length)
  for (let index = 0; index < bytes.length; index++) bytes[index] = binary.charCodeAt(index)
  return bytes
}
