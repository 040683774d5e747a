import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { BodyTooLargeError, readBytes } from './service-request.ts'

const CHUNK = Buffer.alloc(16 * 1_024 ** 2)

test('a body has a limit, and is not read on behind it', async () => {
  let parts = 0
  const endless = function* (): Generator<Buffer> {
    for (;;) {
      parts += 1
      yield CHUNK
    }
  }
  await expect(readBytes(Readable.from(endless(), { objectMode: true }))).rejects.toBeInstanceOf(
    BodyTooLargeError,
  )
  expect(parts).toBeLessThan(40)
})
