import { expect, test } from 'vitest'
import { RequestGate } from './request-gate.ts'

const origin = 'http://x'
const enter = (gate: RequestGate, timeoutMs = Infinity, signal?: AbortSignal) =>
  gate.enter(timeoutMs, origin, signal)

test('lets in as many as there is room for, the others in the order they came', async () => {
  const gate = new RequestGate(2, 10)
  expect(enter(gate)).toBe(undefined)
  expect(enter(gate)).toBe(undefined)
  const order: number[] = []
  const third = enter(gate)?.then(() => order.push(3))
  const fourth = enter(gate)?.then(() => order.push(4))
  expect(order).toEqual([])
  gate.leave()
  await third
  expect(order).toEqual([3])
  gate.leave()
  await fourth
  expect(order).toEqual([3, 4])
  gate.leave()
  gate.leave()
  expect(enter(gate)).toBe(undefined)
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
  gate.leave()
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
  expect(() => enter(gate)).toThrow('the client is closed')
  gate.leave()
  await waiting
  gate.leave()
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
