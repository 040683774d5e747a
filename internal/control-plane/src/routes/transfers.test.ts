import { writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { createBackend, openControlPlane } from '../../test-support/control-plane.ts'
import { createPlatformApp } from './app.ts'
import type { Platform } from './call.ts'

/** Opens the platform API with the organizations `local` and `mine`. `copying` is called before a database is created from a file. */
async function open(copying: () => Promise<void> = async () => {}) {
  const backend = createBackend({
    create: async (_, { type }) => {
      if (type === 'file') await copying()
    },
    exportTo: async (_, file) => await writeFile(file, 'content'),
    applySettings: async () => true,
    revokeAccess: async () => {},
    remove: async () => {},
    sampleUsage: async () => ({ epoch: '', rowsRead: 0, rowsWritten: 0, storageBytes: 0 }),
  })
  const plane = await openControlPlane()
  await plane.start(backend)
  const handle = createPlatformApp({
    plane,
    databaseOrigin: () => '127.0.0.1:1',
    readyDelayMs: 0,
  } as Partial<Platform> as Platform)
  const request = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${plane.getOwnerToken()}`, 'content-type': 'application/json' }
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
    const response = await handle(new Request(`http://127.0.0.1/v1/organizations${path}`, init))
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : (JSON.parse(text) as unknown) }
  }
  await request('POST', '/local/groups', { name: 'team', location: 'local' })
  return request
}

test('a group is not transferred while one of its databases is being restored', async () => {
  const [copyBegun, copyEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const request = await open(async () => {
    copyBegun.resolve()
    await copyEnd.promise
  })
  await request('POST', '', { name: 'mine' })
  await request('POST', '/local/databases', { name: 'app', group: 'team' })
  await request('POST', '/local/databases/app/snapshots', { name: 'first' })
  const restored = request('POST', '/local/databases/app/snapshots/first/restore')
  await copyBegun.promise
  const transfer = () => request('POST', '/local/groups/team/transfer', { organization: 'mine' })
  expect(await transfer()).toEqual({ status: 409, body: { error: 'database app is being restored' } })
  copyEnd.resolve()
  expect((await restored).status).toBe(200)
  expect((await transfer()).status).toBe(200)
})

test('a transfer names the database whose name would be too long', async () => {
  const request = await open()
  const name = 'a'.repeat(50)
  await request('POST', '', { name: 'with a long name' })
  await request('POST', '/local/databases', { name, group: 'team' })
  const rejection = {
    status: 400,
    body: { error: `database name ${name} is too long for with-a-long-name: at most 46 characters` },
  }
  const body = { org: 'with-a-long-name', organization: 'with-a-long-name', group: null }
  expect(await request('POST', '/local/groups/team/transfer', body)).toEqual(rejection)
})
