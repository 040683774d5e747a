import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { acquireServer, releaseServer } from './seeded-server.ts'

test('an error while closing the server is reported to its last user', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  vi.stubEnv('TMPDIR', folder)
  onTestFinished(() => {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true, force: true })
  })
  await acquireServer()
  const [directory = ''] = readdirSync(folder)
  // closing the server would remove this file
  const ownerFile = join(folder, directory, 'data', 'baton.lock')
  rmSync(ownerFile)
  mkdirSync(ownerFile)
  await expect(releaseServer()).rejects.toThrow('the server was stopped, but could not write everything')
})
