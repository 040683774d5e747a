import fc from 'fast-check'
import { beforeEach, expect, test, vi } from 'vitest'
import { endWrite } from '../../../../test/server/end-write.ts'
import { NO_EFFECT, type WriteEffect } from '../request/write-effect.ts'
import { StreamWrites } from './stream-writes.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'
import { WriteGate } from './write-gate.ts'

// Runs generated writers in virtual time on a model of libsql-server, behind the write gate and the WAL checkpointer.

const WINDOW_MS = 5_000
const STREAM_IDLE_MS = 10_000
/** Maximum time that the checkpointer waits for writers, plus the maximum time that writers then wait for the checkpoint. */
const MAX_WAIT_MS = 5_500 + 4_000
/** After this time an abandoned request no longer counts as a writer. */
const FORGOTTEN_MS = 11_000
const LARGE_BYTES = 8 * 1_024 ** 2

const BEGIN: WriteEffect = { ...NO_EFFECT, mayWrite: true, beginsTransaction: true }
const COMMIT: WriteEffect = { ...NO_EFFECT, endsTransaction: true }
const EFFECTS = {
  read: NO_EFFECT,
  insert: { ...NO_EFFECT, mayWrite: true },
  begin: BEGIN,
  /** A BEGIN with a statement that fails. */
  'begin and fail': BEGIN,
  'begin deferred': { ...NO_EFFECT, beginsTransaction: true },
  commit: COMMIT,
  'commit that fails': COMMIT,
  /** A step of a batch whose condition does not hold. */
  'skipped commit': COMMIT,
} satisfies Record<string, WriteEffect>

interface Step {
  readonly action: keyof typeof EFFECTS
  /** Pause before the step. */
  readonly pauseMs: number
  readonly durationMs: number
  /**
   * - `sent twice`: the server rejects the second request, whose baton has been used
   * - `abandoned`: the client disconnects, and sends nothing more
   */
  readonly fault: 'none' | 'sent twice' | 'abandoned'
  readonly isCursor: boolean
}

/** The write lock: granted in order of arrival, and held by a transaction for 5 s while another waits. */
class ModelLock {
  holder: object | null = null
  heldSince = 0
  readonly waiting: { readonly stream: object; grant(): void }[] = []
  #timer: NodeJS.Timeout | undefined

  async acquire(stream: object): Promise<void> {
    if (this.holder === stream) return
    if (this.holder === null) this.#grantTo(stream)
    else
      await new Promise<void>((grant) => {
        this.waiting.push({ stream, grant })
        this.#watch()
      })
  }

  release(stream: object | null): void {
    if (stream === null || this.holder !== stream) return
    this.holder = null
    const next = this.waiting.shift()
    if (next) this.#grantTo(next.stream)
    next?.grant()
  }

  #grantTo(stream: object): void {
    this.holder = stream
    this.heldSince = performance.now()
    this.#watch()
  }

  #watch(): void {
    clearTimeout(this.#timer)
    if (this.waiting.length === 0) return
    const remainingMs = this.heldSince + WINDOW_MS - performance.now()
    this.#timer = setTimeout(() => this.release(this.holder), Math.max(0, remainingMs))
  }
}

beforeEach(() => void vi.useFakeTimers())
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

async function run(programs: readonly (readonly Step[])[], checkpointMs: number) {
  const gate = new WriteGate(() => checkpointer.onWrite())
  const [lock, violations] = [new ModelLock(), [] as string[]]
  let [bytes, checkpoints, lastCheckpointAt] = [0, 0, -Infinity]
  /** Streams with a transaction, including timed-out ones, and whether the transaction acquired the lock. */
  const openStreams = new Map<object, boolean>()
  /** Streams whose transaction appears to have ended. */
  const apparentlyEnded = new Set<object | null>()
  /** When the last request of a stream was abandoned. */
  const abandonedAt = new Map<object | null, number>()
  const checkpointer = new WalCheckpointer(gate, {
    bytes: async () => bytes,
    onNotice: () => {},
    checkpoint: async () => {
      checkpoints += 1
      const now = performance.now()
      const isFirst = now - lastCheckpointAt > checkpointMs
      // allowed if the server could take the lock from its holder, or if the holder's skipped COMMIT looks like one that ran
      const isForgotten = now - (abandonedAt.get(lock.holder) ?? now) > FORGOTTEN_MS
      const isAllowed = now - lock.heldSince >= WINDOW_MS || apparentlyEnded.has(lock.holder) || isForgotten
      if (isFirst && lock.holder && !isAllowed) violations.push(`a checkpoint overlapped a writer at ${now}`)
      lastCheckpointAt = now
      await sleep(checkpointMs)
      if (lock.holder === null) bytes = 0
    },
  })
  /** Executes a step on the server. @returns whether it is rejected */
  const serve = async (stream: object, { action, durationMs }: Step): Promise<boolean> => {
    const isOpen = openStreams.has(stream)
    if (openStreams.get(stream) && lock.holder !== stream) {
      // its transaction has timed out
      openStreams.delete(stream)
      apparentlyEnded.delete(stream)
      return true
    }
    if (isOpen ? EFFECTS[action].beginsTransaction : EFFECTS[action] === COMMIT) return true
    if (EFFECTS[action].mayWrite) {
      await lock.acquire(stream)
      bytes += LARGE_BYTES / 2
    }
    if (EFFECTS[action].beginsTransaction || (isOpen && EFFECTS[action].mayWrite))
      openStreams.set(stream, EFFECTS[action].mayWrite)
    await sleep(durationMs)
    if (action === 'skipped commit') apparentlyEnded.add(stream)
    if (action === 'commit') {
      openStreams.delete(stream)
      apparentlyEnded.delete(stream)
    }
    if (!openStreams.has(stream)) lock.release(stream)
    return action === 'begin and fail' || action === 'commit that fails'
  }
  /** @returns whether the client can continue */
  const runStep = async (stream: object, writes: StreamWrites, step: Step): Promise<boolean> => {
    const { action, fault, isCursor } = step
    const effect = EFFECTS[action]
    const [from, hasBegun] = [performance.now(), writes.hasBegun]
    const { signal } = new AbortController()
    const request = await gate.enter(writes, effect, signal)
    const waitedMs = performance.now() - from
    if (waitedMs > (hasBegun ? 0 : MAX_WAIT_MS)) violations.push(`${action} waited ${waitedMs} ms`)
    const served = serve(stream, step)
    if (fault === 'sent twice') (await gate.enter(writes, effect, signal)).onRejected()
    if (fault === 'abandoned') {
      await sleep(1)
      request.onAbandoned()
      abandonedAt.set(stream, performance.now())
      await served
      return false
    }
    const hasError = await served
    endWrite(request, [`{"baton":"b"${hasError ? ',"message":"failed"' : ''}`], isCursor)
    const isOpen = openStreams.has(stream) || apparentlyEnded.has(stream)
    if (!isOpen && !hasError && !hasBegun && writes.isWriter)
      violations.push(`still a writer after its ${action}`)
    const holdsLock = openStreams.get(stream) && lock.holder === stream && !apparentlyEnded.has(stream)
    if (holdsLock && !writes.isWriter) violations.push(`no longer a writer after its ${action}`)
    return true
  }
  const runProgram = async (steps: readonly Step[]): Promise<void> => {
    const [stream, writes] = [{}, new StreamWrites()]
    for (const step of steps) {
      await sleep(step.pauseMs)
      if (!(await runStep(stream, writes, step))) break
    }
    // its client has disconnected; the server closes the stream
    await sleep(STREAM_IDLE_MS)
    lock.release(stream)
  }
  let remaining = programs.length
  for (const steps of programs) void runProgram(steps).then(() => (remaining -= 1))
  await vi.advanceTimersByTimeAsync(600_000)
  if (remaining > 0) violations.push('a writer never finished')
  // the WAL is truncated even if streams without clients are left
  checkpointer.onWrite()
  await vi.advanceTimersByTimeAsync(120_000)
  if (bytes > LARGE_BYTES) violations.push(`the WAL has ${bytes} bytes`)
  checkpointer.close()
  return { violations, checkpoints }
}

const step = (action: Step['action'], pauseMs = 0, fault: Step['fault'] = 'none'): Step => ({
  action,
  pauseMs,
  durationMs: 1,
  fault,
  isCursor: false,
})
/** After a transaction has timed out, its stream starts another one. */
const RESTARTED_TRANSACTION = [
  [step('begin'), step('insert', 6_000), step('begin and fail')],
  [step('insert'), step('insert', 6_000)],
  [step('insert')],
]
/** A BEGIN that failed did not acquire the lock; the INSERT after it acquired it later. */
const LOCK_ACQUIRED_LATE = [
  [step('begin deferred'), step('begin and fail'), step('insert')],
  [step('begin and fail'), step('insert')],
  [step('insert'), step('insert', 100), step('insert')],
]

const steps = fc.array(
  fc.record({
    action: fc.constantFrom<Step['action']>('insert', ...(Object.keys(EFFECTS) as Step['action'][])),
    pauseMs: fc.constantFrom(0, 0, 5, 100, 6_000),
    durationMs: fc.constantFrom(1, 20, 300),
    fault: fc.constantFrom<Step['fault']>('none', 'none', 'none', 'sent twice', 'abandoned'),
    isCursor: fc.boolean(),
  }),
  { minLength: 1, maxLength: 6 },
)

test('no writer waits forever, no checkpoint runs during a write, and the WAL is truncated', async () => {
  let checkpoints = 0
  const property = fc.asyncProperty(
    fc.array(steps, { minLength: 1, maxLength: 8 }),
    fc.constantFrom(1, 10, 400),
    async (programs, checkpointMs) => {
      const result = await run(programs, checkpointMs)
      checkpoints += result.checkpoints
      expect(result.violations).toEqual([])
    },
  )
  await fc.assert(property, {
    numRuns: 1_000,
    examples: [
      [RESTARTED_TRANSACTION, 1],
      [LOCK_ACQUIRED_LATE, 1],
    ],
  })
  expect(checkpoints).toBeGreaterThan(1_000)
})
