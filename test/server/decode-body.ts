import { brotliDecompressSync, constants, gunzipSync, inflateSync } from 'node:zlib'

// for a truncated body, the part that was received
const PART = { finishFlush: constants.Z_SYNC_FLUSH }
const DECODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: (bytes) => gunzipSync(bytes, PART),
  deflate: (bytes) => inflateSync(bytes, PART),
  br: (bytes) => brotliDecompressSync(bytes, { finishFlush: constants.BROTLI_OPERATION_FLUSH }),
}

/** The text of a body, which may be compressed according to the header `content-encoding`. */
export function decodeBody(encoding: string | null | undefined, bytes: Buffer): string {
  const decoder = DECODERS[encoding ?? '']
  return (decoder !== undefined && bytes.length > 0 ? decoder(bytes) : bytes).toString('utf8')
}
