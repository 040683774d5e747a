import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { ReplicaConditions } from '@batonsql/server-common/backend'
import { expect, test } from 'vitest'
import { DelayedStream } from './delayed-stream.ts'

function createStream(lagMs: number) {
  const conditions = new ReplicaConditions(lagMs)
  const stream = new DelayedStream(conditions, 'fra')
  return { stream, change: (ms: number) => conditions.change('fra', { lagMs: ms }) }
}

test('forwards everything in order, with and without a delay', async () => {
  for (const lagMs of [0, 5]) {
    const { stream } = createStream(lagMs)
    for (const text of ['a', 'b', 'c']) stream.write(text)
    stream.end('d')
    expect((await buffer(stream)).toString()).toBe('abcd')
  }
})

test('delays data until it is due or the delay is changed', async () => {
  const { stream, change } = createStream(2 ** 30)
  stream.end('late')
  expect(stream.read()).toBe(null)
  change(0)
  expect((await buffer(stream)).toString()).toBe('late')
})

test('ends once, however often the delay is changed afterwards', async () => {
  const { stream, change } = createStream(2 ** 30)
  stream.end('late')
  for (const lagMs of [0, 0, 2 ** 30]) change(lagMs)
  expect((await buffer(stream)).toString()).toBe('late')
})

test('holds no data after it is destroyed', async () => {
  const { stream, change } = createStream(2 ** 30)
  stream.write('lost')
  stream.destroy()
  await once(stream, 'close')
  change(0)
  expect(stream.read()).toBe(null)
})
