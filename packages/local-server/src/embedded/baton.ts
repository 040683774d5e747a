import { createHash, type Hash, randomBytes, timingSafeEqual } from 'node:crypto'

const MAC_OFFSET = 16
/** Bytes that SHA-256 takes at a time. */
const HASH_BLOCK = 64

/** What a baton says once its seal has been found genuine. */
export interface BatonContent {
  readonly stream: bigint
  readonly sequence: bigint
}

/** Seals and opens batons: 48 bytes in base64 without padding, stream | sequence | HMAC under a key of this process. */
export class BatonSealer {
  readonly #mac = hmacSha256(randomBytes(32))

  seal({ stream, sequence }: BatonContent): string {
    const bytes = Buffer.alloc(MAC_OFFSET)
    bytes.writeBigUInt64BE(BigInt.asUintN(64, stream), 0)
    bytes.writeBigUInt64BE(BigInt.asUintN(64, sequence), 8)
    return Buffer.concat([bytes, this.#mac(bytes)]).toString('base64')
  }

  /** Null for whatever we have not sealed ourselves. */
  open(baton: string): BatonContent | null {
    if (baton.length !== 64) return null
    const bytes = Buffer.from(baton, 'base64')
    if (bytes.length !== 48 || bytes.toString('base64') !== baton) return null
    const head = bytes.subarray(0, MAC_OFFSET)
    if (!timingSafeEqual(this.#mac(head), bytes.subarray(MAC_OFFSET))) return null
    return { stream: head.readBigUInt64BE(0), sequence: head.readBigUInt64BE(8) }
  }
}

/**
 * HMAC-SHA256 (RFC 2104) under a key of up to 64 bytes. Each request of a stream needs two: the key is hashed once here, and
 * not each time as by `createHmac`, which takes four times as long for so few bytes.
 */
export function hmacSha256(key: Buffer): (bytes: Buffer) => Buffer {
  const [inner, outer] = [0x36, 0x5c].map((pad) => {
    const block = Buffer.alloc(HASH_BLOCK, pad)
    for (const [at, byte] of key.entries()) block[at] = byte ^ pad
    return createHash('sha256').update(block)
  }) as [Hash, Hash]
  return (bytes) => outer.copy().update(inner.copy().update(bytes).digest()).digest()
}
