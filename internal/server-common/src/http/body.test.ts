import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { createPartSearch, readBytes, watchBody } from './body.ts'
import { readRequestBody } from './request-body.ts'
import { StreamedBody } from './streamed-body.ts'

const watch = (body: Readable, onDisconnect: 'destroy' | 'drain') => {
  const events: unknown[] = []
  const watcher = {
    onPart: (part: Buffer) => void events.push(String(part)),
    onEnd: (isComplete: boolean) => void events.push(isComplete),
  }
  const output = watchBody(body, [watcher], onDisconnect)
  output.on('error', () => {})
  return { output, events }
}

test.each(['destroy', 'drain'] as const)(
  'reports a body that was read to its end as complete: %s',
  async (onDisconnect) => {
    const { output, events } = watch(Readable.from([Buffer.from('a'), Buffer.from('b')]), onDisconnect)
    expect(Buffer.concat(await output.toArray()).toString()).toBe('ab')
    expect(events).toEqual(['a', 'b', true])
    const smallBody = Buffer.from('c')
    expect(watchBody(smallBody, [{ onPart: (part) => void events.push(part) }])).toBe(smallBody)
    expect(events.at(-1)).toBe(smallBody)
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
  const { output } = watch(source, 'destroy')
  await new Promise(setImmediate)
  expect(parts).toBe(0)
  await once(output, 'readable')
  await new Promise(setImmediate)
  expect(parts).toBeLessThan(10)
  let bytes = 0
  for await (const part of output) bytes += (part as Buffer).length
  expect(bytes).toBe(99 * 65_536)
})

test('destroys a body whose reader stops, or reads it completely before it is closed', async () => {
  for (const onDisconnect of ['destroy', 'drain'] as const) {
    const source = new PassThrough()
    const { output, events } = watch(source, onDisconnect)
    source.write('a')
    await once(output, 'readable')
    output.read()
    output.destroy()
    const closed = once(output, 'close')
    expect(output.closed).toBe(onDisconnect === 'destroy')
    if (onDisconnect === 'drain') {
      source.write('b')
      source.end('c')
    }
    await closed
    const isDrained = onDisconnect === 'drain'
    expect([source.readableEnded, source.destroyed, events]).toEqual([
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
    const { output, events } = watch(source, onDisconnect)
    source.write('a')
    await once(output, 'readable')
    source.destroy(new Error('the connection was lost'))
    await new Promise((resolve) => output.once('close', resolve))
    expect(output.errored?.message).toBe('the connection was lost')
    expect(events).toEqual(['a', false])
  },
)

test.each([
  ['destroy', false],
  ['drain', true],
] as const)('handles a body that was never read: %s', async (onDisconnect, isRead) => {
  const source = Readable.from([Buffer.from('a')])
  const { output, events } = watch(source, onDisconnect)
  output.destroy()
  await new Promise((resolve) => output.once('close', resolve))
  expect([source.readableEnded, source.destroyed, events]).toEqual([
    isRead,
    true,
    isRead ? ['a', true] : [false],
  ])
})

test.each(['destroy', 'drain'] as const)(
  'reports the end of a body that arrived completely and is closed before it is read: %s',
  async (onDisconnect) => {
    const events: unknown[] = []
    const body = new StreamedBody({ pause: () => {}, resume: () => {}, destroy: () => {} })
    const watcher = {
      onPart: (part: Buffer) => void events.push(String(part)),
      onEnd: (isComplete: boolean) => void events.push(isComplete),
    }
    body.watch([watcher], onDisconnect)
    body.receive(Buffer.from('a'))
    body.complete()
    body.destroy()
    await once(body, 'close')
    expect(events).toEqual(onDisconnect === 'drain' ? ['a', true] : [false])
  },
)

test('rejects a body that was closed before it is read', async () => {
  const body = new PassThrough()
  await once(body.destroy(), 'close')
  for (const read of [readBytes, readRequestBody])
    await expect(read(body)).rejects.toThrow('the body was truncated')
})

test('a search finds a match wherever the body is split', () => {
  const text = 'a match in the middle'
  const isFound = (word: string, size: number): boolean => {
    let found = false
    const search = createPartSearch((bytes) => {
      found ||= bytes.includes(word)
    }, word.length)
    for (let index = 0; index < text.length; index += size)
      search(Buffer.from(text.slice(index, index + size)))
    return found
  }
  for (let size = 1; size <= text.length; size += 1)
    expect([isFound('match in', size), isFound('match on', size), isFound('middle', size)]).toEqual([
      true,
      false,
      true,
    ])
})
