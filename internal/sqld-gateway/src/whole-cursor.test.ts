import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { WholeCursor } from './whole-cursor.ts'

function cursorOf(answer: Readable) {
  const cut: string[] = []
  const cursor = new WholeCursor(answer, () => cut.push('cut'))
  const body = Readable.from(cursor.read(), { objectMode: false })
  body.on('error', () => {})
  body.once('close', () => cursor.close())
  return { body, cut }
}

test('a cursor that is read to its end is whole', async () => {
  const { body, cut } = cursorOf(Readable.from([Buffer.from('a'), Buffer.from('b')]))
  expect(Buffer.concat(await body.toArray()).toString()).toBe('ab')
  expect(cut).toEqual([])
})

test('a cursor whose client leaves is read to its end before it is closed', async () => {
  const answer = new PassThrough()
  const { body, cut } = cursorOf(answer)
  answer.write('a')
  await once(body, 'readable')
  body.read()
  body.destroy()
  const closed = once(body, 'close')
  answer.write('b')
  expect(body.closed).toBe(false)
  answer.end('c')
  await closed
  expect([answer.readableEnded, cut]).toEqual([true, []])
})

test('a truncated cursor is reported', async () => {
  const answer = new PassThrough()
  const { body, cut } = cursorOf(answer)
  answer.write('a')
  await once(body, 'readable')
  answer.destroy(new Error('the connection was lost'))
  body.resume()
  await new Promise((resolve) => body.once('close', resolve))
  expect(cut).toEqual(['cut'])
})

test('a cursor that nobody has begun to read is cut', async () => {
  const answer = new PassThrough()
  const { body, cut } = cursorOf(answer)
  body.destroy()
  await once(body, 'close')
  expect([answer.destroyed, cut]).toEqual([true, ['cut']])
})
