import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { DOCUMENTED_ROUTES, fill, PATH_PARAMETERS } from './documented-routes.ts'
import { Harness, sql } from './platform-harness.ts'
import { findMismatches } from './shape.ts'

let harness: Harness
const PATH_VALUES = { ...PATH_PARAMETERS, slug: PATH_PARAMETERS.organizationSlug }

beforeAll(async () => {
  harness = await Harness.start()
  await harness.platform.createUser({ username: 'bob' })
  await harness.platform.createUser({ username: 'dora' })
  await harness.createGroup('team')
  const { host } = await harness.createDatabase('app', { group: 'team' })
  await sql(host, await harness.tokenFor('app'), ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  await harness.createDatabase('copy', { group: 'team', seed: { type: 'database', name: 'app' } })
  await harness.requestOk('POST', 'members', { body: { username: 'bob', role: 'admin' } })
  await harness.requestOk('POST', '/v2/organizations/local/invites', { body: { email: PATH_VALUES.email } })
  await harness.requestOk('POST', '/v1/organizations', { body: { name: 'elsewhere' } })
})
afterAll(() => harness[Symbol.asyncDispose]())

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
  const mismatches: Record<string, unknown> = {}
  for (const { method, path, response } of orderedRoutes) {
    const name = `${method} ${path}`
    const isAfterTransfer = getPosition(method, path) >= 2 && /\{groupName\}|\{databaseName\}/.test(path)
    const tokenId = path.includes('{tokenId}') ? await idOfNewToken() : ''
    const slug = isAfterTransfer ? 'elsewhere' : 'local'
    const target = fill(path, { ...PATH_VALUES, slug, organizationSlug: slug, tokenId })
    const { status, body } = await harness.sendRequest(
      method,
      target,
      name in BODIES ? { body: BODIES[name] } : {},
    )
    const needsReplicas = path.endsWith('/locations/{location}') && path.includes('{groupName}')
    if (needsReplicas && inject('target') === 'embedded') {
      if (status !== 501) mismatches[name] = status
      continue
    }
    const allMismatches =
      status === response.status ? findMismatches(response.body, body) : [`${status} ${JSON.stringify(body)}`]
    const relevantMismatches = allMismatches.filter((mismatch) => !OPTIONAL_FIELD.test(mismatch))
    if (relevantMismatches.length > 0) mismatches[name] = relevantMismatches
  }
  expect(mismatches).toEqual({})
})

async function idOfNewToken(): Promise<string> {
  const body = { organization: 'local' }
  return (await harness.requestOk('POST', '/v1/auth/api-tokens/short-lived', { body })).id
}
