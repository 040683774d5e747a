import { ReplicaStartError } from '@batonsql/server-common/backend'
import { expect, test } from 'vitest'
import { createBackend, openControlPlane } from '../../test-support/control-plane.ts'
import { createPlatformApp } from './app.ts'
import type { Platform } from './call.ts'

/** Opens the platform API for a back end without databases, whose replicas start until `failedLocation` is set. */
async function open() {
  const state: { failedLocation: string | null } = { failedLocation: null }
  const backend = createBackend({
    setReplicas: async () => {
      if (state.failedLocation !== null)
        throw new ReplicaStartError(state.failedLocation, new Error('disk full'))
    },
  })
  const plane = await openControlPlane()
  await plane.start(backend)
  const handle = createPlatformApp({ plane, version: 'v1' } as Partial<Platform> as Platform)
  const request = async (method: string, path: string) => {
    const url = `http://127.0.0.1/v1/organizations/local/${path}`
    const headers = { authorization: `Bearer ${plane.getOwnerToken()}` }
    const response = await handle(new Request(url, { method, headers }))
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  return { state, plane, request }
}

test('a location that a group already has is kept, even if its replica does not start', async () => {
  const { state, request } = await open()
  const group = { locations: ['local', 'fra'] }
  expect(await request('POST', 'groups/default/locations/fra')).toMatchObject({
    status: 200,
    body: { group },
  })
  state.failedLocation = 'fra'
  expect(await request('POST', 'groups/default/locations/fra')).toMatchObject({
    status: 200,
    body: { group },
  })
  expect(await request('GET', 'groups/default')).toMatchObject({ body: { group } })
})

test('a location whose replica does not start is not added', async () => {
  const { state, request } = await open()
  state.failedLocation = 'fra'
  expect((await request('POST', 'groups/default/locations/fra')).status).toBe(502)
  expect(await request('GET', 'groups/default')).toMatchObject({ body: { group: { locations: ['local'] } } })
})

test('the audit log records that a group was unarchived only if it was archived', async () => {
  const { plane, request } = await open()
  const { groups } = plane.registry
  const readAuditLog = async (): Promise<unknown> => (await request('GET', 'audit-logs')).body['audit_logs']
  expect((await request('POST', 'groups/default/unarchive')).status).toBe(200)
  expect(await readAuditLog()).toEqual([])
  for (const group of groups.rows) groups.put({ ...group, isArchived: true })
  expect((await request('POST', 'groups/default/unarchive')).status).toBe(200)
  expect(await readAuditLog()).toMatchObject([{ code: 'group-unarchive' }])
})
