import { beforeEach, expect, test, vi } from 'vitest'
import { endWrite } from '../../../../test/server/end-write.ts'
import { NO_EFFECT, type WriteEffect } from '../request/write-effect.ts'
import { StreamWrites } from './stream-writes.ts'
import { WriteGate } from './write-gate.ts'

const INSERT: WriteEffect = { ...NO_EFFECT, mayWrite: true }
const BEGIN_IMMEDIATE: WriteEffect = { ...NO_EFFECT, mayWrite: true, beginsTransaction: true }
const COMMIT: WriteEffect = { ...NO_EFFECT, endsTransaction: true }
const LIMIT_MS = 1_000
const { signal } = new AbortController()

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))

/** Sends a request and reads its response. */
async function run(
  gate: WriteGate,
  stream: StreamWrites,
  effect: WriteEffect,
  hasError = false,
): Promise<void> {
  endWrite(await gate.enter(stream, effect, signal), [`{"baton":"b"${hasError ? ',"message":"failed"' : ''}`])
}

/** Records finished requests in order. */
function recordOrder() {
  const names: string[] = []
  const record =
    (name: string) =>
    async (request: Promise<unknown>): Promise<void> => {
      await request
      names.push(name)
    }
  return { names, record }
}

const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0)

test('the work waits for open write transactions; new writers wait for the work, but readers do not', async () => {
  const gate = new WriteGate()
  const [first, second, reader] = [new StreamWrites(), new StreamWrites(), new StreamWrites()]
  const { names, record } = recordOrder()
  await run(gate, first, BEGIN_IMMEDIATE)
  let finish = (): void => {}
  const workDone = new Promise<void>((resolve) => {
    finish = resolve
  })
  void record('work begun')(
    new Promise<void>((resolve) => {
      void gate.withoutWriters(async () => {
        resolve()
        await workDone
      }, LIMIT_MS)
    }),
  )
  void record('new writer')(run(gate, second, INSERT))
  void record('reader')(run(gate, reader, NO_EFFECT))
  void record('write of the open transaction')(run(gate, first, INSERT))
  await settle()
  expect(names).toEqual(['reader', 'write of the open transaction'])
  void record('commit')(run(gate, first, COMMIT))
  await settle()
  expect(names.slice(2)).toEqual(['commit', 'work begun'])
  finish()
  await settle()
  expect(names.slice(4)).toEqual(['new writer'])
})

test('a COMMIT that fails leaves the transaction open', async () => {
  const gate = new WriteGate()
  const stream = new StreamWrites()
  await run(gate, stream, BEGIN_IMMEDIATE)
  await run(gate, stream, COMMIT, true)
  const work = vi.fn(async () => {})
  void gate.withoutWriters(work, LIMIT_MS)
  await settle()
  expect(work).not.toHaveBeenCalled()
  await run(gate, stream, COMMIT)
  await settle()
  expect(work).toHaveBeenCalledOnce()
})

test('if writers do not finish, the work is not run, and waiting writers continue', async () => {
  const gate = new WriteGate()
  await run(gate, new StreamWrites(), BEGIN_IMMEDIATE)
  const [work, writer] = [vi.fn(async () => {}), vi.fn()]
  const done = gate.withoutWriters(work, LIMIT_MS, 500)
  void run(gate, new StreamWrites(), INSERT).then(writer)
  await vi.advanceTimersByTimeAsync(499)
  expect(writer).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(200)
  await done
  await settle()
  expect(writer).toHaveBeenCalledOnce()
  expect(work).not.toHaveBeenCalled()
})

test('a stream that began a transaction is not held back, even if the transaction seems to have ended', async () => {
  const gate = new WriteGate()
  const [holder, waiter] = [new StreamWrites(), new StreamWrites()]
  await run(gate, holder, BEGIN_IMMEDIATE)
  await run(gate, waiter, BEGIN_IMMEDIATE)
  // a COMMIT that did not run, such as a step of a batch whose condition does not hold
  await run(gate, holder, COMMIT)
  void gate.withoutWriters(async () => {}, LIMIT_MS)
  const writer = vi.fn()
  void run(gate, holder, INSERT).then(writer)
  await settle()
  expect(writer).toHaveBeenCalledOnce()
})

test('a transaction that does not end holds writers back no longer than the server would', async () => {
  const [gate, holder] = [new WriteGate(), new StreamWrites()]
  await run(gate, holder, BEGIN_IMMEDIATE)
  const work = vi.fn(async () => {})
  void gate.withoutWriters(work, LIMIT_MS, 60_000)
  // no other writer is waiting, so it is not limited
  await vi.advanceTimersByTimeAsync(6_000)
  expect(work).not.toHaveBeenCalled()
  const statement = await gate.enter(holder, NO_EFFECT, signal)
  const writer = vi.fn()
  void run(gate, new StreamWrites(), INSERT).then(writer)
  await settle()
  // the server does not take the lock from a running statement
  expect(work).not.toHaveBeenCalled()
  endWrite(statement, ['{"baton":"b"'])
  await settle()
  expect(work).toHaveBeenCalledOnce()
  await settle()
  expect(writer).toHaveBeenCalledOnce()
})

test('writers wait for the work only up to its time limit', async () => {
  const gate = new WriteGate()
  void gate.withoutWriters(() => new Promise(() => {}), LIMIT_MS)
  await settle()
  const writer = vi.fn()
  void run(gate, new StreamWrites(), INSERT).then(writer)
  await vi.advanceTimersByTimeAsync(LIMIT_MS - 1)
  expect(writer).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(1)
  expect(writer).toHaveBeenCalledOnce()
})

test('a writer whose client disconnects stops waiting', async () => {
  const gate = new WriteGate()
  void gate.withoutWriters(() => new Promise(() => {}), LIMIT_MS)
  const client = new AbortController()
  const entry = gate.enter(new StreamWrites(), INSERT, client.signal)
  client.abort(new Error('left'))
  await expect(entry).rejects.toThrow('left')
  expect(gate.writers).toEqual([])
})

test('only requests that may write count as pending writes, also on a stream that may hold the write lock', async () => {
  const gate = new WriteGate()
  const [transaction, other] = [new StreamWrites(), new StreamWrites()]
  const send = async (stream: StreamWrites, effect: WriteEffect): Promise<() => void> => {
    const request = await gate.enter(stream, effect, signal)
    return () => endWrite(request, [stream === transaction ? '{"baton":"b"' : '{"baton":null'])
  }
  await run(gate, transaction, BEGIN_IMMEDIATE)
  const receiveRead = await send(transaction, NO_EFFECT)
  const receiveWrite = await send(other, INSERT)
  vi.advanceTimersByTime(100)
  expect(gate.stalledMs).toBe(100)
  receiveWrite()
  vi.advanceTimersByTime(100)
  expect(gate.stalledMs).toBe(0)
  receiveRead()
  const [receiveFirst, receiveSecond] = [await send(transaction, INSERT), await send(other, INSERT)]
  vi.advanceTimersByTime(100)
  receiveSecond()
  vi.advanceTimersByTime(50)
  expect(gate.stalledMs).toBe(50)
  receiveFirst()
  expect(gate.stalledMs).toBe(0)
})
