import type { IncomingHttpHeaders } from 'node:http'
import type { Transform } from 'node:stream'
import { promisify } from 'node:util'
import {
  brotliCompress,
  brotliCompressSync,
  constants,
  createBrotliCompress,
  createDeflate,
  createGzip,
  deflate,
  deflateSync,
  gzip,
  gzipSync,
} from 'node:zlib'

/** Shorter bodies are sent as they are, in bytes, as libsql-server does it. */
const MIN_BYTES = 32
/** Longer bodies are compressed in another thread, in bytes. */
const MAX_SYNC_BYTES = 64 * 1_024

/** A number of RFC 9110, 12.4.2: 0 to 1 with at most three decimals. */
const QUALITY = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

// the cheapest level: client and server are near each other
const DEFLATE = { level: 1 }
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }
// each piece goes out when it comes
const DEFLATE_PIECES = { ...DEFLATE, flush: constants.Z_SYNC_FLUSH }
const BROTLI_PIECES = { ...BROTLI, flush: constants.BROTLI_OPERATION_FLUSH }

/** One way to make a body smaller. */
interface Coder {
  stream(): Transform
  now(bytes: Uint8Array): Buffer
  soon(bytes: Uint8Array): Promise<Buffer>
}

const [gzipSoon, deflateSoon, brotliSoon] = [promisify(gzip), promisify(deflate), promisify(brotliCompress)]

const CODERS = {
  gzip: {
    stream: () => createGzip(DEFLATE_PIECES),
    now: (bytes) => gzipSync(bytes, DEFLATE),
    soon: (bytes) => gzipSoon(bytes, DEFLATE),
  },
  deflate: {
    stream: () => createDeflate(DEFLATE_PIECES),
    now: (bytes) => deflateSync(bytes, DEFLATE),
    soon: (bytes) => deflateSoon(bytes, DEFLATE),
  },
  br: {
    stream: () => createBrotliCompress(BROTLI_PIECES),
    now: (bytes) => brotliCompressSync(bytes, BROTLI),
    soon: (bytes) => brotliSoon(bytes, BROTLI),
  },
} satisfies Readonly<Record<string, Coder>>

/** How a body is compressed, as the header `content-encoding` has it. */
export type Encoding = keyof typeof CODERS

/**
 * The compression a client wants most, of those that libsql-server knows (so not zstd), read as it reads the header: of
 * equal ones the first, `*` means nothing, what is not well-formed is not there. Null for none.
 */
export function wantedEncoding(headers: IncomingHttpHeaders): Encoding | null {
  const header = headers['accept-encoding']
  if (typeof header !== 'string') return null
  let best: { readonly name: string; readonly quality: number } = { name: 'identity', quality: 0 }
  for (const part of header.split(',')) {
    const [name = '', parameter = 'q=1', ...more] = part.split(';').map((piece) => piece.trim().toLowerCase())
    const quality = parameter.startsWith('q=') ? parameter.slice(2) : ''
    if (more.length > 0 || !QUALITY.test(quality) || !(name === 'identity' || isEncoding(name))) continue
    if (Number(quality) > best.quality) best = { name, quality: Number(quality) }
  }
  return isEncoding(best.name) ? best.name : null
}

/** Whether a body of so many bytes is worth it. */
export function isWorthCompressing(bytes: number): boolean {
  return bytes >= MIN_BYTES
}

/** Compresses a stream, each piece as it comes. */
export function compressor(encoding: Encoding): Transform {
  return CODERS[encoding].stream()
}

/** Compresses a whole body. */
export async function compressed(encoding: Encoding, bytes: Uint8Array): Promise<Buffer> {
  const coder: Coder = CODERS[encoding]
  return bytes.length > MAX_SYNC_BYTES ? await coder.soon(bytes) : coder.now(bytes)
}

function isEncoding(name: string): name is Encoding {
  return Object.hasOwn(CODERS, name)
}
