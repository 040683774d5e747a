import { MissingFileError, newDatabaseId } from '@batonsql/server-common/backend'
import { expect, test } from 'vitest'
import { SqldAdmin, type SqldNamespaceStats } from './process/admin.ts'
import { UsageCounts } from './usage-counts.ts'

const ID = newDatabaseId()

/** Creates counts of a server that returns these numbers of written rows, one after another. */
function createCounts(written: readonly (() => number)[], { isRemote = false, hasFile = true } = {}) {
  const remaining = [...written]
  const stats = async (): Promise<SqldNamespaceStats> => ({
    rows_read_count: 0,
    rows_written_count: remaining.shift()?.() ?? Number.NaN,
    storage_bytes_used: 4096,
  })
  const admin = Object.assign(new SqldAdmin({ host: 'localhost', port: 0 }, 'key'), { stats })
  const withAdmin = <T>(call: (admin: SqldAdmin) => Promise<T>) => call(admin)
  const counts = new UsageCounts({ withAdmin }, { isRemote, hasFile: () => hasFile })
  counts.restart()
  return counts
}

test('counts since the first request after a start', async () => {
  const counts = createCounts([() => 7, () => 9, () => 9, () => 12])
  await counts.begin(ID)
  const first = await counts.sample(ID)
  expect(first).toMatchObject({ rowsWritten: 2, storageBytes: 4096 })
  counts.restart()
  await counts.begin(ID)
  const second = await counts.sample(ID)
  expect(second.rowsWritten).toBe(3)
  expect(second.epoch).not.toBe(first.epoch)
})

test('a sample during which the server was restarted has no counts from before', async () => {
  const counts = createCounts([
    () => 100,
    () => {
      counts.restart()
      return 104
    },
    () => 104,
    () => 105,
  ])
  await counts.begin(ID)
  expect((await counts.sample(ID)).rowsWritten).toBe(1)
})

test('counts of a remote server are never subtracted', async () => {
  const counts = createCounts([() => 7], { isRemote: true })
  await counts.begin(ID)
  expect(await counts.sample(ID)).toMatchObject({ epoch: 'remote', rowsWritten: 7 })
})

test('reports a missing file, but no other failure, before a request is sent', async () => {
  await expect(createCounts([], { hasFile: false }).begin(ID)).rejects.toThrow(MissingFileError)
  const fail = (): never => {
    throw new Error('not running')
  }
  const counts = createCounts([fail, fail, () => 3, () => 4])
  await counts.begin(ID)
  await expect(counts.sample(ID)).rejects.toThrow('not running')
  await counts.begin(ID)
  expect((await counts.sample(ID)).rowsWritten).toBe(1)
})
