// When a libsql-server is restarted, and what the log reports.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, inject, test, vi } from 'vitest'
import { isRunning } from '../support/is-running.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { DatabaseInUse, pipeline } from './database-in-use.ts'
import { groupFolders, Harness, sql } from './platform-harness.ts'

const ENDLESS_WRITE = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
  INSERT INTO t SELECT n FROM c WHERE n < 0`
const isSqld = inject('target') === 'sqld'

function spyOnLog() {
  const log = vi.spyOn(console, 'error').mockImplementation(() => {})
  return log
}

test.runIf(isSqld)(
  'a write that continues after its access was revoked restarts the server of its group',
  async () => {
    const log = spyOnLog()
    await using harness = await Harness.start()
    const [database, other] = [
      await DatabaseInUse.create(harness, 'app'),
      await DatabaseInUse.create(harness, 'b'),
    ]
    const write = ['BEGIN', 'INSERT INTO t VALUES (1)']
    const { baton } = await sql(other.host, other.token, write, { keepOpen: true })
    const before = harness.server.requestCount()
    const endless = pipeline(database.client, ENDLESS_WRITE)
    await expect.poll(() => harness.server.requestCount()).toBe(before + 1)
    await database.configure({ block_writes: true })
    expect((await endless.outcome()).status).toBe(502)
    expect((await sql(other.host, other.token, 'COMMIT', { baton })).error).not.toBeNull()
    expect(await other.rows()).toEqual([])
    expect(log.mock.calls).toEqual([
      [
        'app: a request that may write was still running after its access was revoked: restarting libsql-server',
      ],
    ])
  },
)

test.runIf(isSqld).each([
  { folder: '', notice: 'default: libsql-server has exited; restarting it' },
  { folder: 'replicas/fra', notice: 'default: the replica in fra has exited; restarting it' },
])('reports: $notice', async ({ folder, notice }) => {
  const log = spyOnLog()
  const dataDirectory = createTemporaryDirectory()
  await using server = await startLocalServer({ backend: 'sqld', dataDirectory, replicas: ['fra'] })
  const url = folder === '' ? server.url : (server.replicaUrls('default')['fra'] as string)
  await using db = createClient({ url })
  await db.execute('SELECT 1')
  expect(log).not.toHaveBeenCalled()
  const [group = ''] = await groupFolders(dataDirectory)
  const { pid } = JSON.parse(await readFile(join(group, folder, 'sqld.pid'), 'utf8'))
  process.kill(pid, 'SIGKILL')
  await expect.poll(() => isRunning(pid)).toBe(false)
  for (let request = 0; request < 2; request += 1) await db.execute('SELECT 1')
  expect(log.mock.calls).toEqual([[notice]])
})
