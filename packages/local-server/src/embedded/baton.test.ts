import { createHmac, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { BatonSealer, hmacSha256 } from './baton.ts'

test.each([1, 32, 63, 64])("the HMAC under a key of %d bytes is node's own", (length) => {
  const key = randomBytes(length)
  const mac = hmacSha256(key)
  for (const bytes of [Buffer.alloc(0), randomBytes(16), randomBytes(200)])
    expect(mac(bytes)).toEqual(createHmac('sha256', key).update(bytes).digest())
})

test('a baton opens to what was sealed, and with the sealer that made it alone', () => {
  const sealer = new BatonSealer()
  const content = { stream: 7n, sequence: 2n ** 63n + 1n }
  const baton = sealer.seal(content)
  expect(sealer.open(baton)).toEqual(content)
  expect(new BatonSealer().open(baton)).toBeNull()
  for (let at = 0; at < baton.length; at++) {
    const other = baton[at] === 'A' ? 'B' : 'A'
    expect(sealer.open(baton.slice(0, at) + other + baton.slice(at + 1))).toBeNull()
  }
})
