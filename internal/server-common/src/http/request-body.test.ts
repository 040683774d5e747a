import { PassThrough, Readable } from 'node:stream'
import { expect, test, vi } from 'vitest'

// a module of its own: others in this process may hold bodies
vi.resetModules()
const { readRequestBody, releaseBodyMemory } = await import('./request-body.ts')

const LIMITS = { bodyBytes: 10_000, totalBytes: 1_300_000, items: 1_000 }
const toBody = (text: string, partBytes = 97): Readable => {
  const bytes = Buffer.from(text)
  const parts = Array.from({ length: Math.ceil(bytes.length / partBytes) }, (_, index) =>
    bytes.subarray(index * partBytes, (index + 1) * partBytes),
  )
  return Readable.from(parts, { objectMode: false })
}
const list = (item: string, count: number): string => `[${Array.from({ length: count }, () => item).join()}]`

test.each([
  ['requests', list('{"type":"close"}', 600)],
  ['numbers', list('0', 1_100)],
  ['empty arrays', list('[]', 600)],
  ['nested arrays', '['.repeat(1_100)],
  ['properties', `{${Array.from({ length: 1_100 }, () => '"a":1').join()}}`],
  ['texts with escapes', list(String.raw`"\\\""`, 1_100)],
])('too many %s are rejected while they are read', async (_, text) => {
  const body = toBody(`${text}${' '.repeat(100)}`)
  await expect(readRequestBody(body, LIMITS)).rejects.toMatchObject({
    status: 413,
    message: expect.stringContaining('more than 1,000 values'),
  })
  releaseBodyMemory(body)
})

test.each([
  ['few values', list('0', 900)],
  ['a long text', JSON.stringify(',{["\\'.repeat(1_000))],
])('%s are read', async (_, text) => {
  const body = toBody(text)
  expect((await readRequestBody(body, LIMITS)).toString()).toBe(text)
  releaseBodyMemory(body)
})

test('by default, a body may have 64 MiB, and no more is read', async () => {
  const part = Buffer.alloc(16 * 1_024 ** 2, ' ')
  let parts = 0
  const endless = function* (): Generator<Buffer> {
    for (;;) {
      parts += 1
      yield part
    }
  }
  const body = Readable.from(endless(), { objectMode: true })
  await expect(readRequestBody(body)).rejects.toMatchObject({ status: 413 })
  expect(parts).toBeLessThan(10)
  releaseBodyMemory(body)
})

test('a body that is too large is rejected before it has arrived', async () => {
  const body = new PassThrough()
  const reading = readRequestBody(body, LIMITS)
  body.write(Buffer.alloc(10_001, ' '))
  await expect(reading).rejects.toMatchObject({ status: 413 })
  expect(body.isPaused()).toBe(true)
  releaseBodyMemory(body)
})

test('the bodies in memory are limited until they are released', async () => {
  const text = list('0', 500)
  const send = (): Readable => toBody(text)
  const held = [send(), send()]
  for (const body of held) await readRequestBody(body, LIMITS)
  const rejected = send()
  await expect(readRequestBody(rejected, LIMITS)).rejects.toMatchObject({ status: 503 })
  releaseBodyMemory(rejected)
  for (const body of held) releaseBodyMemory(body)
  const next = send()
  expect((await readRequestBody(next, LIMITS)).toString()).toBe(text)
  releaseBodyMemory(next)
})
