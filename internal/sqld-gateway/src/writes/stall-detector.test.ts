import { setTimeout as sleep } from 'node:timers/promises'
import { newDatabaseId } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Stall, StallDetector, type WriteMonitor } from './stall-detector.ts'

const ID = newDatabaseId()
const TIMES = { stallAfterMs: 20, probeTimeoutMs: 20 }
const neverResolve = (): Promise<void> => new Promise(() => {})

/** Watches a database whose writes have had no response for longer than the detector's limit. */
function watch(server: Partial<WriteMonitor>): {
  readonly stalled: Promise<Stall>
  readonly isStalled: () => boolean
} {
  const stalled = Promise.withResolvers<Stall>()
  const onStall = vi.fn(async (_: unknown, stall: Stall) => stalled.resolve(stall))
  const detector = new StallDetector(
    {
      databases: () => [ID],
      stalledMs: () => TIMES.stallAfterMs + 1,
      probe: neverResolve,
      responds: async () => true,
      isLockFree: async () => true,
      onStall,
      ...server,
    },
    TIMES,
  )
  onTestFinished(() => detector.close())
  return { stalled: stalled.promise, isStalled: () => onStall.mock.calls.length > 0 }
}

/** Returns whether the detector reports a stall of a server. */
async function detectsStall(server: Partial<WriteMonitor>): Promise<boolean> {
  const { isStalled } = watch(server)
  const untilCheckedMs = 800
  await sleep(untilCheckedMs)
  return isStalled()
}

test('reports a stall if neither writes nor a probe get a response while the write lock is free', async () => {
  const stalledMs = TIMES.stallAfterMs + 1
  expect(await watch({}).stalled).toEqual({ stalledMs, serverResponds: true })
  const unresponsive = { isLockFree: async () => false, responds: async () => false }
  expect(await watch(unresponsive).stalled).toEqual({ stalledMs, serverResponds: false })
  const probe = vi.fn(neverResolve).mockRejectedValueOnce(new Error('the connection was closed'))
  expect(await watch({ probe }).stalled).toEqual({ stalledMs, serverResponds: true })
})

test('while a stall lasts, the server receives one probe', async () => {
  const [probe, stalledAgain] = [vi.fn(neverResolve), Promise.withResolvers<void>()]
  watch({ probe, onStall: vi.fn(async () => stalledAgain.resolve()).mockResolvedValueOnce() })
  await stalledAgain.promise
  expect(probe).toHaveBeenCalledOnce()
})

test('a stall after another one is examined with a new probe', async () => {
  const [probe, stalledMs] = [vi.fn(neverResolve), vi.fn(() => TIMES.stallAfterMs + 1)]
  watch({ probe, stalledMs, onStall: async () => void stalledMs.mockReturnValueOnce(0) })
  await expect.poll(() => probe.mock.calls.length).toBeGreaterThan(1)
})

test('does not report a stall while the server is healthy or busy', async () => {
  expect(await detectsStall({ stalledMs: () => TIMES.stallAfterMs - 1 })).toBe(false)
  expect(await detectsStall({ probe: async () => {} })).toBe(false)
  // a statement is running
  expect(await detectsStall({ isLockFree: async () => false })).toBe(false)
  expect(await detectsStall({ isLockFree: async () => null })).toBe(false)
  // between two writers, and then held again
  let checks = 0
  expect(await detectsStall({ isLockFree: async () => (checks += 1) % 3 !== 0 })).toBe(false)
})

test('does not report a stall if this process was blocked and could not read responses', async () => {
  let blockedMs = 0
  let responses = 0
  const [onDetectedStall, probe] = [vi.fn(async () => {}), vi.fn(neverResolve)]
  const detector = new StallDetector(
    {
      databases: () => [ID],
      stalledMs: () => TIMES.stallAfterMs + 1,
      probe,
      // its time limit has passed when this process runs again
      responds: async () => {
        blockedMs += 5_000
        responses += 1
        return false
      },
      // a long statement
      isLockFree: async () => false,
      onStall: onDetectedStall,
    },
    TIMES,
    () => performance.now() + blockedMs,
  )
  onTestFinished(() => detector.close())
  await expect.poll(() => responses).toBeGreaterThan(4)
  expect([probe, onDetectedStall].map(({ mock }) => mock.calls.length)).toEqual([0, 0])
})

test('a check reads each database once', async () => {
  const ids = Array.from({ length: 200 }, () => newDatabaseId())
  const [databases, stalledMs] = [vi.fn(() => ids), vi.fn(() => 0)]
  const detector = new StallDetector(
    {
      databases,
      stalledMs,
      probe: neverResolve,
      responds: async () => true,
      isLockFree: async () => true,
      onStall: async () => {},
    },
    TIMES,
  )
  onTestFinished(() => detector.close())
  await expect.poll(() => databases.mock.calls.length).toBeGreaterThan(2)
  expect(stalledMs.mock.calls.length).toBe(ids.length * databases.mock.calls.length)
})
