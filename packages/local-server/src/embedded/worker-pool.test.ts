import { join } from 'node:path'
import { DatabaseWorker, toText } from '@batonsql/embedded-engine'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { FULL_PERMISSIONS } from '@batonsql/server-common/hrana'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { ensureDatabaseFile } from './empty-database.ts'
import { WorkerPool } from './worker-pool.ts'

// otherwise a slow machine would close databases that were idle for 5 s
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))

const createIds = (name: string, count: number): DatabaseId[] =>
  Array.from({ length: count }, (_, index) => `${name}${index}` as DatabaseId)

async function openPool(ids: readonly DatabaseId[]): Promise<WorkerPool> {
  const folder = createTemporaryDirectory()
  const getPath = (id: DatabaseId): string => join(folder, `${id}.db`)
  const pool = new WorkerPool({
    getPath,
    getRole: () => 'plain',
    isDurable: false,
    dialect: null,
    onRequest: async () => null,
    isIdle: () => true,
    onClosed: () => {},
    onUsage: () => {},
  })
  onTestFinished(() => pool.close())
  await pool.prepare()
  for (const id of ids) {
    await ensureDatabaseFile(getPath(id), false)
    pool.configure(id, DEFAULT_SETTINGS)
  }
  return pool
}

test('databases that are used repeatedly stay open while many others are used once', async () => {
  const [frequentIds, firstIds, secondIds] = [
    createIds('used', 10),
    createIds('first', 20),
    createIds('second', 20),
  ]
  const pool = await openPool([...frequentIds, ...firstIds, ...secondIds])
  for (const id of [...frequentIds, ...firstIds, ...frequentIds, ...secondIds]) await pool.get(id)
  expect(frequentIds.filter((id) => pool.find(id) === undefined)).toEqual([])
  const openIds = [...frequentIds, ...firstIds, ...secondIds].filter((id) => pool.find(id) !== undefined)
  expect(openIds.length).toBeLessThanOrEqual(16)
})

test('a database that was removed and created again counts as new', async () => {
  const [removedIds, otherIds] = [createIds('removed', 1), createIds('other', 40)]
  const pool = await openPool([...removedIds, ...otherIds])
  const [id] = removedIds as [DatabaseId]
  for (const otherId of [id, ...otherIds.slice(0, 20)]) await pool.get(otherId)
  await pool.forget(id)
  pool.configure(id, DEFAULT_SETTINGS)
  for (const otherId of [id, ...otherIds.slice(20)]) await pool.get(otherId)
  expect(pool.find(id)).toBeUndefined()
})

test('an idle database is closed; while none is open, no timer runs', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  const [id] = createIds('idle', 1) as [DatabaseId]
  const pool = await openPool([id])
  for (let round = 0; round < 2; round += 1) {
    await pool.get(id)
    vi.advanceTimersByTime(4_000)
    expect([pool.find(id) !== undefined, vi.getTimerCount()]).toEqual([true, 1])
    vi.advanceTimersByTime(2_000)
    await expect.poll(() => pool.find(id)).toBeUndefined()
    vi.advanceTimersByTime(1_000)
    expect(vi.getTimerCount()).toBe(0)
  }
})

test('keeps one spare worker while no database is open', async () => {
  const timers = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] as const
  vi.useFakeTimers({ toFake: [...timers] })
  const shutDown = vi.spyOn(DatabaseWorker.prototype, 'shutDown')
  const ids = createIds('idle', 2)
  const pool = await openPool(ids)
  for (const id of ids) await pool.get(id)
  // starts a third worker, as a spare, and closes both databases
  vi.advanceTimersByTime(6_000)
  await expect.poll(() => ids.filter((id) => pool.find(id) !== undefined)).toEqual([])
  vi.advanceTimersByTime(1_000)
  expect(shutDown).toHaveBeenCalledTimes(2)
})

test('workers that were just released are kept for the next databases; those that stay unused are ended', async () => {
  const timers = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] as const
  vi.useFakeTimers({ toFake: [...timers] })
  const shutDown = vi.spyOn(DatabaseWorker.prototype, 'shutDown')
  const [firstIds, secondIds] = [createIds('first', 4), createIds('second', 4)]
  const pool = await openPool([...firstIds, ...secondIds])
  const workers = new Set<DatabaseWorker>()
  for (const ids of [firstIds, secondIds]) {
    for (const id of ids) workers.add(await pool.get(id))
    if (ids === firstIds) await Promise.all(ids.map((id) => pool.forget(id)))
  }
  expect(workers.size).toBe(4)
  expect(shutDown).not.toHaveBeenCalled()
  const [usedId, ...otherIds] = secondIds as [DatabaseId, ...DatabaseId[]]
  await Promise.all(otherIds.map((id) => pool.forget(id)))
  for (let second = 0; second < 10; second += 1) {
    await pool.get(usedId)
    vi.advanceTimersByTime(1_000)
  }
  // two spare workers remain
  expect(shutDown).toHaveBeenCalledTimes(1)
})

test.each([
  { memory: 'little', sql: 'select 1', isReused: true },
  { memory: '50 MB', sql: `select ${'hex(zeroblob(250000)), '.repeat(100)}1`, isReused: false },
])(
  'a worker whose engine has taken $memory is given another database: $isReused',
  async ({ sql, isReused }) => {
    const [first, second] = createIds('d', 2) as [DatabaseId, DatabaseId]
    const pool = await openPool([first, second])
    const worker = await pool.get(first)
    const call = { id: first, stream: 1, permissions: FULL_PERMISSIONS, signal: new AbortController().signal }
    const requests = [{ type: 'sequence', sql, sqlId: null }, { type: 'close' }] as const
    expect(await worker.run(call, { type: 'pipeline', requests, version: 3 })).toMatchObject({
      isClosed: true,
      text: expect.not.stringContaining('error'),
    })
    await worker.release({ keepsFiles: true })
    expect((await pool.get(second)) === worker).toBe(isReused)
    if (!isReused) await expect.poll(() => worker.hasExited).toBe(true)
  },
)

test('the replication index of a database does not change while it is closed', async () => {
  const [id] = createIds('app', 1) as [DatabaseId]
  const pool = await openPool([id])
  const readIndex = async (sql: string): Promise<string | undefined> => {
    const worker = await pool.get(id)
    const statement = { sql, sqlId: null, args: [], namedArgs: [] }
    const { signal } = new AbortController()
    const outcome = await worker.run(
      { id, stream: 1, permissions: FULL_PERMISSIONS, signal },
      { type: 'pipeline', requests: [{ type: 'execute', statement }, { type: 'close' }], version: 3 },
    )
    if (outcome.type === 'failure') throw new Error(outcome.body)
    return /"replication_index":("\d+"|null)/.exec(toText(outcome.text))?.[1]
  }
  const close = async (): Promise<void> => {
    await (pool.find(id) as DatabaseWorker).release({ keepsFiles: true })
    expect(pool.find(id)).toBeUndefined()
  }
  const first = await readIndex('create table t (a)')
  await close()
  expect(await readIndex('select 1')).toBe(first)
  await close()
  expect(await readIndex('insert into t values (1)')).toBe(`"${Number(first?.slice(1, -1)) + 1}"`)
})

test('a database that was opened for a call is not evicted before the call begins', async () => {
  const ids = createIds('called', 60)
  const pool = await openPool(ids)
  const run = async (id: DatabaseId): Promise<string> => {
    const worker = await pool.get(id)
    const call = { id, stream: 1, permissions: FULL_PERMISSIONS, signal: new AbortController().signal }
    const { type } = await worker.run(call, { type: 'pipeline', requests: [{ type: 'close' }], version: 3 })
    return type
  }
  expect(new Set(await Promise.all(ids.map(run)))).toEqual(new Set(['results']))
})
