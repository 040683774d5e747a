import { expect, test } from 'vitest'
import { RequestGate } from './concurrency-limiter.ts'

const origin = 'http://x'
const enter = (gate: RequestGate, timeoutMs = Infinity, signal?: AbortSignal) =>
  gate.enter(false, { timeoutMs, origin, signal })

test('lets in as many as there is room for, the others in the order they came', async () => {
  const gate = new RequestGate(2, 10)
  expect(enter(gate)).toBe(undefined)
  expect(enter(gate)).toBe(undefined)
  const order: number[] = []
  const third = enter(gate)?.then(() => order.push(3))
  const fourth = enter(gate)?.then(() => order.push(4))
  expect(order).toEqual([])
  gate.leave(false)
  await third
  expect(order).toEqual([3])
  gate.leave(false)
  await fourth
  expect(order).toEqual([3, 4])
  gate.leave(false)
  gate.leave(false)
  expect(enter(gate)).toBe(undefined)
})

test('reads have places and a line of their own', async () => {
  const gate = new RequestGate(1, 1)
  const read = () => gate.enter(true, { timeoutMs: Infinity, origin, signal: undefined })
  expect(enter(gate)).toBe(undefined)
  void enter(gate)
  expect(() => enter(gate)).toThrow('queueLimit')
  expect(read()).toBe(undefined)
  const second = read()
  expect(() => read()).toThrow('queueLimit')
  gate.leave(true)
  await second
  gate.leave(true)
  expect(read()).toBe(undefined)
  expect(() => enter(gate)).toThrow('queueLimit')
})

test('a line that is full turns away', () => {
  const gate = new RequestGate(1, 1)
  void enter(gate)
  void enter(gate)
  expect(() => enter(gate)).toThrow(expect.objectContaining({ code: 'QUEUE_FULL', outcome: 'not_applied' }))
})

test('who has waited too long, or gives up, leaves the line, and takes nobody’s place', async () => {
  const gate = new RequestGate(1, 10)
  void enter(gate)
  await expect(enter(gate, 10)).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
  const controller = new AbortController()
  const reason = new Error('changed my mind')
  const waiting = enter(gate, Infinity, controller.signal)
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  expect(() => enter(gate, Infinity, AbortSignal.abort(reason))).toThrow(reason)
  gate.leave(false)
  expect(enter(gate)).toBe(undefined)
  expect(enter(gate)).not.toBe(undefined)
})

test('closing at once turns away those in line', async () => {
  const gate = new RequestGate(1, 10)
  void enter(gate)
  const waiting = enter(gate)
  await gate.close(0)
  await expect(waiting).rejects.toThrow('the client is closed')
  expect(() => enter(gate)).toThrow('the client is closed')
})

test('closing with patience waits for those inside, those in line, and open streams', async () => {
  const gate = new RequestGate(1, 10)
  void enter(gate)
  const stream = { abandon: () => Promise.resolve() }
  gate.noteStream(stream, true)
  const waiting = enter(gate)
  let isClosed = false
  const closed = gate.close(60_000).then(() => {
    isClosed = true
  })
  expect(() => gate.begin()).toThrow('the client is closed')
  gate.leave(false)
  await waiting
  gate.leave(false)
  await Promise.resolve()
  expect(isClosed).toBe(false)
  gate.noteStream(stream, false)
  await closed
})

test('patience ends', async () => {
  const gate = new RequestGate(1, 10)
  void enter(gate)
  const waiting = enter(gate)
  const refused = expect(waiting).rejects.toThrow('the client is closed')
  await gate.close(20)
  await refused
})

test('an empty gate closes at once', async () => {
  await new RequestGate(3, 10).close(60_000)
})

test('streams that are open at the end are abandoned', async () => {
  const gate = new RequestGate(1, 10)
  let abandoned = 0
  gate.noteStream({ abandon: async () => void (abandoned += 1) }, true)
  await gate.close(0)
  expect(abandoned).toBe(1)
})

test('a call that rests: closing with patience lets it come back and end', async () => {
  const gate = new RequestGate(1, 10)
  gate.begin()
  let isClosed = false
  const closed = gate.close(60_000).then(() => {
    isClosed = true
  })
  await gate.rest(20)
  expect(isClosed).toBe(false)
  expect(() => gate.begin()).toThrow('the client is closed')
  expect(enter(gate)).toBe(undefined)
  gate.leave(false)
  gate.end()
  await closed
})

test('closing at once ends a rest', async () => {
  const gate = new RequestGate(1, 10)
  gate.begin()
  const rest = expect(gate.rest(60_000)).rejects.toThrow('the client is closed')
  await gate.close(0)
  await rest
  await expect(gate.rest(60_000)).rejects.toThrow('the client is closed')
  expect(() => enter(gate)).toThrow('the client is closed')
})

test('a rest ends with the signal, also with one that was aborted before', async () => {
  const gate = new RequestGate(1, 10)
  const controller = new AbortController()
  const rest = expect(gate.rest(60_000, controller.signal)).rejects.toThrow('changed my mind')
  controller.abort(new Error('changed my mind'))
  await rest
  await expect(gate.rest(60_000, controller.signal)).rejects.toThrow('changed my mind')
})

test('closing twice: both settle with the work', async () => {
  const gate = new RequestGate(1, 10)
  void enter(gate)
  const closed = Promise.all([gate.close(60_000), gate.close(60_000), gate.close(Infinity)])
  gate.leave(false)
  await closed
  await gate.close(60_000)
})

test('closing at once in the middle of a patient closing: both settle, streams are abandoned once', async () => {
  const gate = new RequestGate(1, 10)
  void enter(gate)
  let abandoned = 0
  gate.noteStream({ abandon: async () => void (abandoned += 1) }, true)
  const patient = gate.close(60_000)
  await gate.close(0)
  await patient
  expect(abandoned).toBe(1)
})

test('a stream that the last answer brought is waited for', async () => {
  const gate = new RequestGate(1, 10)
  const stream = { abandon: () => Promise.reject(new Error('abandoned')) }
  gate.begin()
  const closed = gate.close(60_000)
  gate.end()
  await Promise.resolve()
  gate.noteStream(stream, true)
  await new Promise((resolve) => setTimeout(resolve, 20))
  gate.noteStream(stream, false)
  await closed
})
