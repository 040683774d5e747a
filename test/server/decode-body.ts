import { brotliDecompressSync, constants, gunzipSync, inflateSync } from 'node:zlib'

// decodes the received part of a truncated body
const TRUNCATED_INPUT = { finishFlush: constants.Z_SYNC_FLUSH }
const DECODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: (bytes) => gunzipSync(bytes, TRUNCATED_INPUT),
  deflate: (bytes) => inflateSync(bytes, TRUNCATED_INPUT),
  br: (bytes) => brotliDecompressSync(bytes, { finishFlush: constants.BROTLI_OPERATION_FLUSH }),
}

/** Returns the text of a body, decompressed according to its `content-encoding` header. */
export function decodeBody(encoding: string | null | undefined, bytes: Buffer): string {
  const decoder = DECODERS[encoding ?? '']
  return (decoder !== undefined && bytes.length > 0 ? decoder(bytes) : bytes).toString('utf8')
}
