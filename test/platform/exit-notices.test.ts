// A libsql-server that exits is restarted; the log reports it once.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { groupFolders } from './platform-harness.ts'

test.runIf(inject('target') === 'sqld').each([
  { folder: '', notice: 'default: libsql-server has exited; restarting it' },
  { folder: 'replicas/fra', notice: 'default: the replica in fra has exited; restarting it' },
])('reports: $notice', async ({ folder, notice }) => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => {})
  onTestFinished(() => log.mockRestore())
  const dataDirectory = await mkdtemp(join(tmpdir(), 'baton-exit-notices-'))
  onTestFinished(() => rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 }))
  await using server = await startLocalServer({ backend: 'sqld', dataDirectory, replicas: ['fra'] })
  const url = folder === '' ? server.url : (server.replicaUrls('default')['fra'] as string)
  await using db = createClient({ url })
  await db.execute('SELECT 1')
  expect(log).not.toHaveBeenCalled()
  const [group = ''] = await groupFolders(dataDirectory)
  const { pid } = JSON.parse(await readFile(join(group, folder, 'sqld.pid'), 'utf8'))
  process.kill(pid, 'SIGKILL')
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'), 60_000)
  for (let request = 0; request < 2; request += 1) await db.execute('SELECT 1')
  expect(log.mock.calls).toEqual([[notice]])
})
