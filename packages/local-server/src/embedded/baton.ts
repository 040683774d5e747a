import { createHmac, createSecretKey, randomBytes, timingSafeEqual } from 'node:crypto'

const SIGNATURE_OFFSET = 16

/** The contents of a baton whose signature has been verified. */
export interface BatonContent {
  readonly stream: bigint
  readonly sequence: bigint
}

/** Signs and verifies batons: 48 bytes in base64 without padding, stream | sequence | HMAC under a key of this process. */
export class BatonSigner {
  // a KeyObject: with a Buffer, `createHmac` takes six times as long on node 24
  readonly #key = createSecretKey(randomBytes(32))

  sign({ stream, sequence }: BatonContent): string {
    const bytes = Buffer.alloc(SIGNATURE_OFFSET)
    bytes.writeBigUInt64BE(BigInt.asUintN(64, stream), 0)
    bytes.writeBigUInt64BE(BigInt.asUintN(64, sequence), 8)
    return Buffer.concat([bytes, this.#hmac(bytes)]).toString('base64')
  }

  /** Returns the contents of a baton; null if this signer has not signed it. */
  verify(baton: string): BatonContent | null {
    if (baton.length !== 64) return null
    const bytes = Buffer.from(baton, 'base64')
    if (bytes.length !== 48 || bytes.toString('base64') !== baton) return null
    const head = bytes.subarray(0, SIGNATURE_OFFSET)
    if (!timingSafeEqual(this.#hmac(head), bytes.subarray(SIGNATURE_OFFSET))) return null
    return { stream: head.readBigUInt64BE(0), sequence: head.readBigUInt64BE(8) }
  }

  #hmac(bytes: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(bytes).digest()
  }
}
