import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { BodyTooLargeError, readBytes, watchBody } from './body.ts'

const CHUNK = Buffer.alloc(16 * 1_024 ** 2)

test('limits the size of a body, and does not read beyond the limit', async () => {
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

const watched = (body: Readable, onDisconnect: 'destroy' | 'drain') => {
  const seen: unknown[] = []
  const watcher = {
    onPart: (part: Buffer) => void seen.push(String(part)),
    onEnd: (isComplete: boolean) => void seen.push(isComplete),
  }
  const passedOn = watchBody(body, [watcher], onDisconnect)
  passedOn.on('error', () => {})
  return { passedOn, seen }
}

test.each(['destroy', 'drain'] as const)(
  'reports a body that was read to its end as complete: %s',
  async (onDisconnect) => {
    const { passedOn, seen } = watched(Readable.from([Buffer.from('a'), Buffer.from('b')]), onDisconnect)
    expect(Buffer.concat(await passedOn.toArray()).toString()).toBe('ab')
    expect(seen).toEqual(['a', 'b', true])
    const whole = Buffer.from('c')
    expect(watchBody(whole, [{ onPart: (part) => void seen.push(part) }])).toBe(whole)
    expect(seen.at(-1)).toBe(whole)
  },
)

test('reads a body no faster than its reader consumes it', async () => {
  let parts = 0
  const source = new Readable({
    read() {
      parts += 1
      this.push(parts < 100 ? Buffer.alloc(65_536) : null)
    },
  })
  const { passedOn } = watched(source, 'destroy')
  await new Promise(setImmediate)
  expect(parts).toBe(0)
  await once(passedOn, 'readable')
  await new Promise(setImmediate)
  expect(parts).toBeLessThan(10)
  let bytes = 0
  for await (const part of passedOn) bytes += (part as Buffer).length
  expect(bytes).toBe(99 * 65_536)
})

test('destroys a body whose reader stops, or reads it completely before it is closed', async () => {
  for (const onDisconnect of ['destroy', 'drain'] as const) {
    const source = new PassThrough()
    const { passedOn, seen } = watched(source, onDisconnect)
    source.write('a')
    await once(passedOn, 'readable')
    passedOn.read()
    passedOn.destroy()
    const closed = once(passedOn, 'close')
    expect(passedOn.closed).toBe(onDisconnect === 'destroy')
    if (onDisconnect === 'drain') {
      source.write('b')
      source.end('c')
    }
    await closed
    const isDrained = onDisconnect === 'drain'
    expect([source.readableEnded, source.destroyed, seen]).toEqual([
      isDrained,
      true,
      isDrained ? ['a', 'b', 'c', true] : ['a', false],
    ])
  }
})

test.each(['destroy', 'drain'] as const)(
  'reports a truncated body as incomplete: %s',
  async (onDisconnect) => {
    const source = new PassThrough()
    const { passedOn, seen } = watched(source, onDisconnect)
    source.write('a')
    await once(passedOn, 'readable')
    source.destroy(new Error('the connection was lost'))
    await new Promise((resolve) => passedOn.once('close', resolve))
    expect(passedOn.errored?.message).toBe('the connection was lost')
    expect(seen).toEqual(['a', false])
  },
)

test.each([
  ['destroy', false],
  ['drain', true],
] as const)('handles a body that was never read: %s', async (onDisconnect, isRead) => {
  const source = Readable.from([Buffer.from('a')])
  const { passedOn, seen } = watched(source, onDisconnect)
  passedOn.destroy()
  await new Promise((resolve) => passedOn.once('close', resolve))
  expect([source.readableEnded, source.destroyed, seen]).toEqual([
    isRead,
    true,
    isRead ? ['a', true] : [false],
  ])
})
