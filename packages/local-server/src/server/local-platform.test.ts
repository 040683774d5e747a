import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startLocalServer } from './server.ts'

test('archiving a group is rejected if the back end has not applied it, and is then pending', async () => {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(dataDirectory, { recursive: true, force: true }))
  const consoleError = vi.spyOn(console, 'error').mockReturnValue()
  onTestFinished(() => consoleError.mockRestore())
  await using server = await startLocalServer({ dataDirectory, platform: {} })
  const database = server.databaseId('default')
  rmSync(join(dataDirectory, 'databases', database, 'data.db'))
  await expect(server.platform?.archiveGroup('default')).rejects.toThrow('has not applied it yet')
  expect(server.platform?.pendingChanges).toMatchObject([{ database }])
})
