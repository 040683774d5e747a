import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { endWrite } from '../../../../test/server/end-write.ts'
import { NO_EFFECT } from '../request/write-effect.ts'
import { StreamWrites } from './stream-writes.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'
import { WriteGate } from './write-gate.ts'

const MEGABYTE = 1_024 ** 2
const INSERT = { ...NO_EFFECT, mayWrite: true }

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** Creates a WAL that a checkpoint empties in 10 ms, unless a reader needs it. */
function createWal() {
  const state = { bytes: 0, isRead: false, checkpoints: [] as number[], reports: [] as number[] }
  const gate = new WriteGate(() => checkpointer.onWrite())
  const checkpointer = new WalCheckpointer(gate, {
    bytes: async () => state.bytes,
    checkpoint: async () => {
      state.checkpoints.push(performance.now())
      await new Promise((resolve) => setTimeout(resolve, 10))
      if (!state.isRead) state.bytes = 0
    },
    onNotice: (text) => void state.reports.push(Number(/ grown to (\d+) MiB: /.exec(text)?.[1])),
  })
  const startedAt = performance.now()
  const entryTimes: number[] = []
  /** Performs a write that finishes at once. */
  const write = async (megabytes: number): Promise<void> => {
    const stream = new StreamWrites()
    const request = await gate.enter(stream, INSERT, new AbortController().signal)
    entryTimes.push(performance.now() - startedAt)
    state.bytes += megabytes * MEGABYTE
    endWrite(request, ['{"baton":null'])
  }
  return { state, entryTimes, write, checkpointer, gate }
}

test('truncates a WAL over 8 MiB once, 100 ms after the write, while writers wait', async () => {
  const { state, entryTimes, write } = createWal()
  await write(8)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(state.checkpoints).toEqual([])
  await write(1)
  await vi.advanceTimersByTimeAsync(105)
  expect(state.checkpoints).toHaveLength(1)
  const blockedWrite = write(1)
  await vi.advanceTimersByTimeAsync(1_000)
  await blockedWrite
  expect(entryTimes).toEqual([0, 1_000, 1_110])
  expect([state.checkpoints.length, state.bytes]).toEqual([1, MEGABYTE])
})

test('spends less than a tenth of the time on attempts while a reader needs the WAL', async () => {
  const { state, write } = createWal()
  state.isRead = true
  await write(9)
  await vi.advanceTimersByTimeAsync(30_000)
  const attempts = state.checkpoints.filter(
    (time, i, times) => time - (times[i - 1] ?? Number.NEGATIVE_INFINITY) > 500,
  )
  // attempts of 250 ms, each followed by a pause of 2.5 s
  expect(attempts).toHaveLength(11)
  expect(state.checkpoints.length * 10).toBeLessThan(3_000)
})

test('truncates the WAL when the reader has finished, without another write', async () => {
  const { state, write } = createWal()
  state.isRead = true
  await write(9)
  await vi.advanceTimersByTimeAsync(1_000)
  state.isRead = false
  await vi.advanceTimersByTimeAsync(10_000)
  expect(state.bytes).toBe(0)
})

test('a writer that does not finish delays others for half a second, and the checkpoint is retried', async () => {
  const { state, entryTimes, write, gate } = createWal()
  const openWriter = new StreamWrites()
  const request = await gate.enter(
    openWriter,
    { ...NO_EFFECT, mayWrite: true, beginsTransaction: true },
    new AbortController().signal,
  )
  await write(9)
  await vi.advanceTimersByTimeAsync(150)
  const blockedWrite = write(0)
  await vi.advanceTimersByTimeAsync(1_000)
  await blockedWrite
  expect(entryTimes[1]).toBeGreaterThanOrEqual(600)
  expect(entryTimes[1]).toBeLessThan(750)
  expect(state.checkpoints).toEqual([])
  endWrite(request, ['{"baton":null'])
  await vi.advanceTimersByTimeAsync(10_000)
  expect(state.bytes).toBe(0)
})

test('reports a WAL that cannot be truncated at 256 MiB, and again each time it doubles', async () => {
  const { state, write } = createWal()
  const grow = async (megabytes: number): Promise<void> => {
    await write(megabytes)
    await vi.advanceTimersByTimeAsync(60_000)
  }
  state.isRead = true
  await grow(255)
  expect(state.reports).toEqual([])
  await grow(1)
  await grow(200)
  expect(state.reports).toEqual([256])
  await grow(100)
  expect(state.reports).toEqual([256, 556])
  state.isRead = false
  await grow(1)
  state.isRead = true
  await grow(300)
  expect(state.reports).toEqual([256, 556, 300])
})

test('stops checking after it is closed', async () => {
  const { state, write, checkpointer } = createWal()
  await write(9)
  checkpointer.close()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(state.checkpoints).toEqual([])
})
