import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { newKeyPair } from '@batonsql/server-common/auth'
import type { DatabaseBackend, DatabaseId, UsageSample } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import { openOperatorAccount } from './bootstrap.ts'
import { NEW_CONFIGURATION } from './databases.ts'
import { Registry } from './registry/registry.ts'
import type { DatabaseRow } from './registry/rows.ts'
import { Usage } from './usage.ts'

const ALL_TIME = { from: 0, to: Date.now() + 3_600_000 }

const SAMPLE: UsageSample = { epoch: 'e', rowsRead: 0, rowsWritten: 0, storageBytes: 0 }

async function createDatabase(): Promise<{ registry: Registry; row: DatabaseRow }> {
  const directory = createTemporaryDirectory()
  const registry = await Registry.open(directory)
  onTestFinished(async () => {
    registry.close()
  })
  const { organization } = openOperatorAccount(registry, 'local')
  const [group] = registry.groups.rows
  if (group === undefined) throw new Error('no group')
  const row: DatabaseRow = {
    id: 'one' as DatabaseId,
    organization: organization.id,
    group: group.id,
    name: 'one',
    state: 'ready',
    configuration: NEW_CONFIGURATION,
    parent: null,
    isSchema: false,
    schema: null,
    key: newKeyPair(),
    createdAt: 0,
  }
  registry.transaction(() => registry.databases.put(row))
  return { registry, row }
}

/** Counts the usage of a database, and of more databases, of which the back end returns the given samples. */
async function createUsage(sampleUsage: (id: DatabaseId) => Promise<UsageSample>, count = 0) {
  const { registry, row } = await createDatabase()
  const rows = addDatabases({ registry, row }, count)
  const usage = new Usage(registry, { sampleUsage } as Partial<DatabaseBackend> as DatabaseBackend)
  const readRows = (id = row.id): number => usage.getDatabaseUsage(id, ALL_TIME).rowsRead
  return { registry, row, rows, usage, readRows }
}

test('counts usage once if it is sampled twice concurrently, and not at all after the database is removed', async () => {
  let rowCounter = 100
  const { registry, row, usage, readRows } = await createUsage(async () => {
    const rowsRead = rowCounter
    rowCounter += 50
    // the first request gets its response last
    await new Promise((resolve) => setTimeout(resolve, rowsRead === 100 ? 50 : 1))
    return { ...SAMPLE, rowsRead }
  })
  await Promise.all([usage.sample([row]), usage.sample([row])])
  expect(readRows()).toBe(150)

  const pendingSample = usage.sample([row])
  registry.transaction(() => registry.databases.delete(row.id))
  await pendingSample
  expect(readRows()).toBe(150)
})

test('handles a counter that decreased, and a counter of another epoch, which starts at zero', async () => {
  let sample = SAMPLE
  const { row, usage, readRows } = await createUsage(async () => sample)
  const sampleRowsRead = async (epoch: string, rowsRead: number): Promise<number> => {
    sample = { ...sample, epoch, rowsRead }
    await usage.sample([row])
    return readRows()
  }
  expect(await sampleRowsRead('e', 100)).toBe(100)
  expect(await sampleRowsRead('e', 90)).toBe(100)
  expect(await sampleRowsRead('e', 95)).toBe(105)
  expect(await sampleRowsRead('f', 10)).toBe(115)
})

test('counts a response that takes longer than the sampling window', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  let rowsWritten = 2
  const { row, usage } = await createUsage(async () => ({ ...SAMPLE, rowsWritten }))
  const body = new PassThrough()
  usage.touch(row.id)
  usage.onResponse(row.id, body)
  vi.advanceTimersByTime(15_000)
  await usage.sampleTouched()
  rowsWritten = 5_002
  body.destroy()
  await once(body, 'close')
  await usage.sampleTouched()
  expect(usage.getDatabaseUsage(row.id, ALL_TIME).rowsWritten).toBe(5_002)
})

/** Adds databases to the registry. */
function addDatabases(
  { registry, row }: { registry: Registry; row: DatabaseRow },
  count: number,
): DatabaseRow[] {
  const rows = Array.from({ length: count }, (_, index): DatabaseRow => {
    const name = `database ${index}`
    return { ...row, id: name as DatabaseId, name }
  })
  registry.transaction(() => {
    for (const added of rows) registry.databases.put(added)
  })
  return rows
}

test('records the usage of many databases in a few transactions, and handles requests between them', async () => {
  const { registry, rows, usage, readRows } = await createUsage(async (id) => {
    if (id === rows[7]?.id) throw new Error('no response')
    return { ...SAMPLE, rowsRead: 3, storageBytes: 4_096 }
  }, 250)
  const transactions = vi.spyOn(registry, 'transaction')
  const sampling = usage.sample(rows)
  await new Promise((resolve) => setImmediate(resolve))
  expect(transactions).toHaveBeenCalledTimes(1)
  await sampling
  expect(transactions).toHaveBeenCalledTimes(3)
  const counts = rows.map(({ id }) => readRows(id))
  expect(counts).toEqual(rows.map((_, index) => (index === 7 ? 0 : 3)))
})

test('samples one database without waiting for a sample of many', async () => {
  const sampled: DatabaseId[] = []
  const { row, rows, usage } = await createUsage(async (id) => {
    sampled.push(id)
    return SAMPLE
  }, 250)
  await Promise.all([usage.sample(rows), usage.sample([row])])
  expect(sampled.indexOf(row.id)).toBe(100)
  expect(sampled).toHaveLength(251)
})

test('includes usage in the next sample if the registry could not be written', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const { registry, row, usage } = await createUsage(async () => ({ ...SAMPLE, rowsRead: 1 }))
  usage.addBytesSynced(row.id, 100)
  const run = registry.file.run.bind(registry.file)
  const fullDisk = vi.spyOn(registry.file, 'run').mockImplementation((sql, values) => {
    if (sql === 'COMMIT') throw new Error('disk full')
    run(sql, values)
  })
  vi.advanceTimersByTime(15_000)
  await expect(usage.sampleTouched()).rejects.toThrow('disk full')
  fullDisk.mockRestore()
  await usage.sampleTouched()
  await usage.sample([row])
  expect(usage.getDatabaseUsage(row.id, ALL_TIME)).toMatchObject({ rowsRead: 1, bytesSynced: 100 })
})

test('reads the usage of all databases of an organization with a constant number of queries', async () => {
  const { registry, row, rows, usage } = await createUsage(async (id) => {
    const rowsRead = rows.findIndex((sampled) => sampled.id === id)
    return { ...SAMPLE, rowsRead, rowsWritten: 1, storageBytes: 4_096 }
  }, 5)
  usage.addBytesSynced(rows[4]?.id as DatabaseId, 10)
  await usage.sample(rows.slice(1))
  const queries = vi.spyOn(registry.file, 'all')
  const expectedUsages = new Map(
    rows.map(({ id }, index) => [
      id,
      {
        rowsRead: index,
        rowsWritten: Math.min(index, 1),
        bytesSynced: index === 4 ? 10 : 0,
        storageBytes: Math.min(index, 1) * 4_096,
      },
    ]),
  )
  const ids = rows.map(({ id }) => id)
  expect(usage.getDatabaseUsages([...ids, ...ids], ALL_TIME)).toEqual(expectedUsages)
  expect(queries).toHaveBeenCalledTimes(1)
  const total = { rowsRead: 10, rowsWritten: 4, bytesSynced: 10, storageBytes: 4 * 4_096 }
  for (const group of [null, row.group])
    expect(usage.getOrganizationUsage(row.organization, ALL_TIME, group)).toEqual(total)
  expect(queries).toHaveBeenCalledTimes(3)
})

test('samples the remaining databases if some could not be recorded', async () => {
  const { registry, rows, usage } = await createUsage(async () => ({ ...SAMPLE, rowsRead: 3 }), 250)
  vi.spyOn(registry, 'transaction').mockImplementationOnce(() => {
    throw new Error('disk full')
  })
  await expect(usage.sample(rows)).rejects.toThrow('disk full')
  const ids = rows.map(({ id }) => id)
  const counts = [...usage.getDatabaseUsages(ids, ALL_TIME).values()].map(({ rowsRead }) => rowsRead)
  expect(counts.filter((count) => count === 3)).toHaveLength(150)
})

test('a group whose server never responds delays only itself, and only once for all of its databases', async () => {
  const { registry, row } = await createDatabase()
  const hungRows = ['a', 'b', 'c'].map((name) => ({ ...row, id: name as DatabaseId, name, group: 'hung' }))
  registry.transaction(() => {
    for (const hungRow of hungRows) registry.databases.put(hungRow)
  })
  const asked: string[] = []
  const sampleUsage = (id: DatabaseId): Promise<UsageSample> => {
    asked.push(id)
    if (id !== row.id) return new Promise(() => {})
    return Promise.resolve({ ...SAMPLE, rowsRead: 5 })
  }
  const backend = { sampleUsage } as Partial<DatabaseBackend> as DatabaseBackend
  const hung = new Usage(registry, backend, 2 ** 30)
  void hung.sample(hungRows)
  await hung.sample([row])
  expect(hung.getDatabaseUsage(row.id, ALL_TIME).rowsRead).toBe(5)

  asked.length = 0
  const usage = new Usage(registry, backend, 1)
  for (const { id } of [...hungRows, row]) usage.touch(id)
  await usage.sampleTouched()
  expect(asked).toEqual(['a', row.id])
})
