import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { FULL_PERMISSIONS, type PipelineRequest } from '@batonsql/server-common/hrana'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ENDLESS_READ } from '../../../test/support/fixtures.ts'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import {
  type DatabaseCall,
  DatabaseWorker,
  NotBegunError,
  type RunningCursor,
  type WorkerListener,
} from './database-worker.ts'
import { loadEngineModule } from './engine-module.ts'
import { SharedCallState } from './protocol/shared-call-state.ts'

const NO_LISTENER: WorkerListener = {
  onClosed() {},
  onChanges() {},
  onRequest: async () => null,
  onUsage() {},
}

async function startWorker() {
  const folder = createTemporaryDirectory()
  const exits: string[] = []
  const worker = new DatabaseWorker(await loadEngineModule(), {
    ...NO_LISTENER,
    onClosed: ({ hasExited }) => hasExited && exits.push('exit'),
  })
  onTestFinished(() => worker.shutDown())
  expect(await worker.ready).toMatch(/^3\.\d+\.\d+$/)
  const open = (id: DatabaseId): void =>
    worker.open({
      id,
      path: join(folder, `${id}.db`),
      settings: DEFAULT_SETTINGS,
      role: 'plain',
      lastIndex: null,
      dialect: null,
      isDurable: false,
    })
  const createCall = (id: DatabaseId, stream: number): DatabaseCall => ({
    id,
    stream,
    permissions: FULL_PERMISSIONS,
    signal: new AbortController().signal,
  })
  const run = (id: DatabaseId, stream: number, request: PipelineRequest) =>
    worker.run(createCall(id, stream), { type: 'pipeline', requests: [request], version: 3 })
  /** Starts a cursor, and waits for its beginning or its first lines. */
  const runCursor = async (stream: number, sql: string, until: 'onBegin' | 'onLines') => {
    const statement = { sql, sqlId: null, args: [], namedArgs: [], wantRows: undefined }
    const work = { type: 'cursor', steps: [{ statement, condition: null }] } as const
    return await new Promise<RunningCursor>((resolve) => {
      const listener = { onBegin() {}, onLines() {} }
      const cursor = worker.stream(createCall(first, stream), work, {
        ...listener,
        [until]: () => resolve(cursor),
      })
    })
  }
  return { worker, exits, open, createCall, run, runCursor }
}

const [first, second] = ['d', 'e'] as DatabaseId[] as [DatabaseId, DatabaseId]

test('a worker ignores messages about a database that is being released, and keeps the process alive only during a call, a release or a shutdown', async () => {
  const { worker, exits, open, run } = await startWorker()
  const close = (id: DatabaseId) => run(id, 2, { type: 'close' })
  const [ref, unref] = [vi.spyOn(Worker.prototype, 'ref'), vi.spyOn(Worker.prototype, 'unref')]
  open(first)
  // an idle worker does not keep the process alive
  expect(ref).not.toHaveBeenCalled()
  const released = worker.release({ keepsFiles: true })
  expect(ref).toHaveBeenCalledOnce()
  worker.closeStream(1)
  worker.watch(true)
  worker.applySettings(DEFAULT_SETTINGS)
  const failedCall = expect(close(first)).rejects.toThrow(NotBegunError)
  await released
  await failedCall
  // the worker can open another database, and then serves only that one
  open(second)
  await expect(close(first)).rejects.toThrow(NotBegunError)
  vi.clearAllMocks()
  expect(await close(second)).toMatchObject({ type: 'results', isClosed: true })
  expect([ref.mock.calls.length, unref.mock.calls.length]).toEqual([1, 1])
  expect(exits).toEqual([])
  const stopped = worker.shutDown()
  expect(ref).toHaveBeenCalledTimes(2)
  await stopped
  expect(exits).toEqual(['exit'])
})

test('a statement that has blocked another call for a minute is interrupted', async ({ signal }) => {
  const { exits, open, run } = await startWorker()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  const interrupt = vi.spyOn(SharedCallState.prototype, 'interrupt')
  onTestFinished(() => {
    vi.useRealTimers()
    interrupt.mockRestore()
  })
  open(first)
  const blocking = run(first, 1, { type: 'sequence', sql: ENDLESS_READ, sqlId: null })
  const blocked = run(first, 2, { type: 'close' })
  let seconds = 0
  for (; interrupt.mock.calls.length === 0 && !signal.aborted; seconds += 1) {
    vi.advanceTimersByTime(1_000)
    await setImmediate()
  }
  expect(seconds).toBeGreaterThan(60)
  expect(await blocking).toMatchObject({ type: 'results', text: expect.stringContaining('interrupted') })
  expect(await blocked).toMatchObject({ type: 'results', isClosed: true })
  expect(exits).toEqual([])
})

/** Starts a worker that seems to execute one statement of a call, whose number is `current`, until the returned clock says otherwise. */
async function startBusyWorker(current: number) {
  const worker = await startWorker()
  worker.open(first)
  const interrupt = vi.spyOn(SharedCallState.prototype, 'interrupt')
  vi.spyOn(SharedCallState.prototype, 'current', 'get').mockReturnValue(current)
  const execution = vi.spyOn(SharedCallState.prototype, 'execution', 'get').mockReturnValue(1)
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })
  const runEndless = (stream: number) =>
    worker.run(first, stream, { type: 'sequence', sql: ENDLESS_READ, sqlId: null })
  const runShort = (stream: number) => worker.run(first, stream, { type: 'close' })
  /** Lets time pass. @returns the calls that were interrupted */
  const pass = (seconds: number): number[] => {
    interrupt.mockClear()
    vi.advanceTimersByTime(1_000 * seconds)
    return [...new Set(interrupt.mock.calls.map(([call]) => call))]
  }
  return { ...worker, execution, runEndless, runShort, pass }
}

test('a statement that has run alone is interrupted only after another call has waited for a minute', async () => {
  const { exits, runEndless, runShort, pass } = await startBusyWorker(1)
  const alone = runEndless(1)
  expect(pass(64)).toEqual([])
  const waiting = runShort(2)
  expect(pass(60)).toEqual([])
  expect(pass(1)).toEqual([1])
  expect(await alone).toMatchObject({ text: expect.stringContaining('interrupted') })
  expect(await waiting).toMatchObject({ isClosed: true })
  expect(exits).toEqual([])
})

test('a batch of short statements is not interrupted, however long another call waits for it', async () => {
  const { worker, execution, runEndless, runShort, pass } = await startBusyWorker(1)
  const calls = [runEndless(1), runShort(2)]
  let executions = 1
  execution.mockImplementation(() => (executions += 1))
  expect(pass(120)).toEqual([])
  execution.mockReturnValue(executions)
  expect([pass(60), pass(1)]).toEqual([[], [1]])
  await worker.terminate()
  await Promise.allSettled(calls)
})

test('a cursor does not wait for a statement while its reader has a chunk', async () => {
  const { runCursor, runEndless, pass } = await startBusyWorker(2)
  const cursor = await runCursor(1, 'select 1', 'onLines')
  const endless = runEndless(2)
  expect(pass(120)).toEqual([])
  cursor.readMore()
  expect([pass(60), pass(1)]).toEqual([[], [2]])
  await Promise.all([endless, cursor.outcome])
})

test('a worker is terminated if one interrupted statement does not end, not if later ones of its call follow', async () => {
  const { worker, exits, execution, runEndless, pass } = await startBusyWorker(1)
  vi.spyOn(SharedCallState.prototype, 'isInterrupted', 'get').mockReturnValue(true)
  const terminate = vi.spyOn(worker, 'terminate')
  const call = runEndless(1)
  let executions = 1
  execution.mockImplementation(() => (executions += 1))
  pass(10)
  expect(terminate).not.toHaveBeenCalled()
  execution.mockReturnValue(executions)
  pass(2)
  expect(terminate).not.toHaveBeenCalled()
  pass(1)
  expect(terminate).toHaveBeenCalled()
  await expect(call).rejects.toThrow()
  expect(exits).toEqual(['exit'])
})

test('a system clock that is set forward interrupts nothing', async () => {
  const { worker, open, run } = await startWorker()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'] })
  const interrupt = vi.spyOn(SharedCallState.prototype, 'interrupt')
  const current = vi.spyOn(SharedCallState.prototype, 'current', 'get')
  onTestFinished(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })
  open(first)
  const calls = [1, 2].map((stream) =>
    run(first, stream, { type: 'sequence', sql: ENDLESS_READ, sqlId: null }),
  )
  while (current.mock.results.every(({ value }) => value === 0)) {
    vi.advanceTimersByTime(1_000)
    await setImmediate()
  }
  vi.setSystemTime(Date.now() + 3_600_000)
  vi.advanceTimersByTime(1_000)
  expect(interrupt).not.toHaveBeenCalled()
  await worker.terminate()
  await Promise.allSettled(calls)
})

test.each([
  ['terminate', 500, 'the engine of this database failed: it exited with code 1'],
  ['shutDown', 502, 'the database was closed while this request was running'],
] as const)(
  'calls are rejected by %s(): with HTTP %i if they have begun, otherwise as not begun',
  async (method, status, text) => {
    const { worker, exits, open, run, runCursor } = await startWorker()
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    open(first)
    // a call of a function is not interrupted
    const sql = "select instr(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || 'x')"
    const { outcome } = await runCursor(1, sql, 'onBegin')
    const calls = Promise.allSettled([outcome, run(first, 2, { type: 'close' })])
    expect(vi.getTimerCount()).toBe(1)
    await worker[method]()
    const message = expect.stringContaining(text)
    expect(await calls).toEqual([
      { status: 'rejected', reason: expect.objectContaining({ status, message }) },
      { status: 'rejected', reason: expect.any(NotBegunError) },
    ])
    expect([exits, vi.getTimerCount()]).toEqual([['exit'], 0])
  },
)

test('an engine that cannot be started is reported with the reason', async () => {
  const emptyModule = await WebAssembly.compile(new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]))
  const { ready } = new DatabaseWorker(emptyModule, NO_LISTENER)
  await expect(ready).rejects.toThrow(/^the engine could not be started: \w*Error: ./)
})

test('an engine that fails is reported with the reason, which it does not print', async () => {
  const { worker, exits, open, createCall } = await startWorker()
  const write = vi.spyOn(process.stderr, 'write')
  onTestFinished(() => write.mockRestore())
  open(first)
  // no integer
  const params = { Positional: [{ Integer: 0.5 }] }
  const program = JSON.stringify({ steps: [{ cond: null, query: { stmt: { stmt: '' }, params } }] })
  const work = { type: 'migration', job: 1, program, isDryRun: true } as const
  await expect(worker.run(createCall(first, 1), work)).rejects.toMatchObject({
    status: 500,
    message: expect.stringContaining('failed: it exited with code 1 (RangeError: The number 0.5'),
  })
  expect([exits, write.mock.calls]).toEqual([['exit'], []])
})
