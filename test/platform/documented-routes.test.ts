import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { DOCUMENTED_ROUTES, fill, NAMES } from './documented-routes.ts'
import { Scene, sql } from './platform-scene.ts'
import { faultsOf } from './shape.ts'

let scene: Scene
const PATH_VALUES = { ...NAMES, slug: NAMES.organizationSlug }

beforeAll(async () => {
  scene = await Scene.start()
  await scene.platform.createUser({ username: 'bob' })
  await scene.platform.createUser({ username: 'dora' })
  const { own } = scene
  await scene.done('POST', `${own}/groups`, { body: { name: 'team', location: 'local' } })
  const { host } = await scene.create('app', { group: 'team' })
  await sql(host, await scene.tokenFor('app'), ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  await scene.create('copy', { group: 'team', seed: { type: 'database', name: 'app' } })
  await scene.done('POST', `${own}/members`, { body: { username: 'bob', role: 'admin' } })
  await scene.done('POST', '/v2/organizations/local/invites', { body: { email: PATH_VALUES.email } })
  await scene.done('POST', '/v1/organizations', { body: { name: 'elsewhere' } })
})
afterAll(() => scene[Symbol.asyncDispose]())

/** The bodies for routes with a body. */
const BODIES: Readonly<Record<string, object>> = {
  'POST /v1/organizations/{organizationSlug}/databases': { name: 'fresh', group: 'team' },
  'PATCH /v1/organizations/{organizationSlug}/databases/{databaseName}/configuration': { size_limit: '10mb' },
  'POST /v1/organizations/{organizationSlug}/groups': { name: 'second', location: 'ams' },
  'PATCH /v1/organizations/{organizationSlug}/groups/{groupName}/configuration': { delete_protection: false },
  'POST /v1/organizations/{organizationSlug}/groups/{groupName}/transfer': { organization: 'elsewhere' },
  'PATCH /v1/organizations/{organizationSlug}': { overages: true },
  'POST /v1/organizations/{organizationSlug}/members': { username: 'dora' },
  'PATCH /v1/organizations/{organizationSlug}/members/{username}': { role: 'viewer' },
  'POST /v2/organizations/{organizationSlug}/invites': { email: 'erin@example.test', role: 'viewer' },
  'POST /v1/auth/api-tokens/{tokenName}': { organization: 'local' },
}

/** Fields that only scoped tokens have. */
const OPTIONAL_FIELD = /tokens\[\d+\]\.(?:organization|group|scopes): missing/

/** Returns the position of a route: deletions come last, and the transfer after the routes that need the group. */
const getPosition = (method: string, path: string): number =>
  (path.endsWith('/transfer') ? 1 : 0) +
  (method === 'DELETE' ? 2 : 0) +
  (path.endsWith('{groupName}') ? 1 : 0)
const orderedRoutes = [...DOCUMENTED_ROUTES].sort(
  (a, b) => getPosition(a.method, a.path) - getPosition(b.method, b.path),
)

test('there are 49 documented routes', () => expect(DOCUMENTED_ROUTES).toHaveLength(49))

test('each documented route responds with its documented shape', async () => {
  const faults: Record<string, unknown> = {}
  for (const { method, path, response } of orderedRoutes) {
    const name = `${method} ${path}`
    const isAfterTransfer = getPosition(method, path) >= 2 && /\{groupName\}|\{databaseName\}/.test(path)
    const tokenId = path.includes('{tokenId}') ? await idOfNewToken() : ''
    const slug = isAfterTransfer ? 'elsewhere' : 'local'
    const target = fill(path, { ...PATH_VALUES, slug, organizationSlug: slug, tokenId })
    const { status, body } = await scene.sendRequest(
      method,
      target,
      name in BODIES ? { body: BODIES[name] } : {},
    )
    const needsReplicas = path.endsWith('/locations/{location}') && path.includes('{groupName}')
    if (needsReplicas && inject('target') === 'embedded') {
      if (status !== 501) faults[name] = status
      continue
    }
    const faultList =
      status === response.status ? faultsOf(response.body, body) : [`${status} ${JSON.stringify(body)}`]
    const relevantFaults = faultList.filter((fault) => !OPTIONAL_FIELD.test(fault))
    if (relevantFaults.length > 0) faults[name] = relevantFaults
  }
  expect(faults).toEqual({})
})

async function idOfNewToken(): Promise<string> {
  const body = { organization: 'local' }
  return (await scene.done('POST', '/v1/auth/api-tokens/short-lived', { body })).id
}
