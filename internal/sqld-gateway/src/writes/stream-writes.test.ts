import { expect, test } from 'vitest'
import { endWrite } from '../../../../test/server/end-write.ts'
import { NO_EFFECT } from '../request/write-effect.ts'
import { StreamWrites } from './stream-writes.ts'
import { WriteGate } from './write-gate.ts'

const BEGIN = { ...NO_EFFECT, mayWrite: true, beginsTransaction: true }
const COMMIT = { ...NO_EFFECT, endsTransaction: true }
const OPEN = '{"baton":"b","results":[]}'

/** Receives responses on one stream, each in parts. @returns whether the stream may still hold the write lock */
async function receive(
  ...responses: readonly (readonly [typeof NO_EFFECT, ...string[]])[]
): Promise<boolean> {
  const gate = new WriteGate()
  const stream = new StreamWrites()
  for (const [effect, ...parts] of responses) {
    endWrite(await gate.enter(stream, effect, new AbortController().signal), parts)
  }
  return stream.isWriter
}

test('a transaction ends with a COMMIT whose response arrives in several parts', async () => {
  expect(await receive([BEGIN, OPEN])).toBe(true)
  expect(await receive([BEGIN, OPEN], [COMMIT, OPEN.slice(0, 20), OPEN.slice(20)])).toBe(false)
})

test('a transaction remains open after a COMMIT that fails, wherever the response is split', async () => {
  const response = '{"baton":"b","results":[{"error":{"message":"no"}}]}'
  for (let end = 1; end < response.length; end += 1)
    expect(await receive([BEGIN, OPEN], [COMMIT, response.slice(0, end), response.slice(end)])).toBe(true)
  for (let size = 1; size < response.length; size += 1) {
    const parts = Array.from({ length: Math.ceil(response.length / size) }, (_, index) =>
      response.slice(index * size, (index + 1) * size),
    )
    expect([size, await receive([BEGIN, OPEN], [COMMIT, ...parts])]).toEqual([size, true])
  }
})

test('a transaction remains open after a response that is truncated within its first bytes', async () => {
  const states = [
    await receive([BEGIN, '{"ba']),
    await receive([BEGIN]),
    await receive([BEGIN, '{"baton":null']),
  ]
  expect(states).toEqual([true, true, false])
})

test('a transaction ends when the server closes its stream', async () => {
  expect(await receive([BEGIN, OPEN], [NO_EFFECT, '{"baton":null,', '"results":[]}'])).toBe(false)
})
