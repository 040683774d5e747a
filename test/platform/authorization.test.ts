import { afterAll, beforeAll, expect, test } from 'vitest'
import { words } from '../support/words.ts'
import { DOCUMENTED_ROUTES, fill, type KnownRoute, UNDOCUMENTED_ROUTES } from './documented-routes.ts'
import { Harness } from './platform-harness.ts'

const SCOPES = words(`
    read db:create db:delete db:configure db:mint-token db:rotate-creds group:configure
    group:mint-token group:rotate-creds
  `)

/** A token, and its properties that are known without a request to the server. */
interface Caller {
  readonly name: string
  readonly token: string | null
  /** The status of every response to a token that is not valid. */
  readonly rejected?: 401
  readonly level: 'unrestricted' | 'organization' | 'group'
  /** Whether it belongs to another organization, so that it gives no access to the requested one. */
  readonly isForeign?: boolean
  readonly scopes?: readonly string[]
  readonly role: 'owner' | 'admin' | 'member' | 'viewer'
}

let harness: Harness
let organizationId = ''
const callers: Caller[] = []

beforeAll(async () => {
  harness = await Harness.start()
  const { platform } = harness
  const organization = platform.organization
  organizationId = await harness.organizationId()
  const owner = { level: 'organization', role: 'owner' } as const
  await harness.createGroup('team')
  await harness.createGroup('doomed')
  await harness.createDatabase('app', { group: 'team' })
  const group = 'team'
  const databaseToken = await harness.tokenFor('app')
  const revoked = await harness.createApiToken('revoked')
  await harness.requestOk('DELETE', '/v1/auth/api-tokens/revoked')
  const orphan = await harness.createApiToken('orphan', {
    organization,
    group: 'doomed',
    scopes: ['full-access'],
  })
  await harness.requestOk('DELETE', 'groups/doomed')
  callers.push(
    { ...owner, name: 'no token', token: null, rejected: 401 },
    { ...owner, name: 'not a JWT', token: 'nonsense', rejected: 401 },
    { ...owner, name: 'database token', token: databaseToken, rejected: 401 },
    { ...owner, name: 'revoked', token: revoked, rejected: 401 },
    { ...owner, name: 'of a deleted group', token: orphan, rejected: 401 },
    { ...owner, name: 'unrestricted', token: platform.token, level: 'unrestricted' },
    { ...owner, name: 'organization', token: await harness.createApiToken('organization', { organization }) },
  )
  for (const scope of [...SCOPES, 'read-only', 'full-access']) {
    const token = await harness.createApiToken(`group-${scope.replace(':', '-')}`, {
      organization,
      group,
      scopes: [scope],
    })
    const scopes = { 'read-only': ['read'], 'full-access': SCOPES }[scope] ?? [scope]
    callers.push({ name: `group ${scope}`, token, level: 'group', scopes, role: 'owner' })
  }
  for (const role of ['member', 'viewer', 'admin'] as const) {
    const token = await platform.createUser({ username: role })
    await harness.requestOk('POST', 'members', { body: { username: role, role } })
    callers.push({ name: role, token, level: 'unrestricted', role })
  }
  const outsider = await platform.createUser({ username: 'stranger' })
  await harness.requestOk('POST', '/v1/organizations', { token: outsider, body: { name: 'other' } })
  const foreign = await harness.createApiToken('foreign', { organization: 'other' }, outsider)
  callers.push(
    { ...owner, name: 'of another organization', token: foreign, isForeign: true },
    { ...owner, name: 'stranger', token: outsider, level: 'unrestricted', isForeign: true },
  )
})
afterAll(() => harness[Symbol.asyncDispose]())

/** Names that do not exist, so that an authorized caller changes nothing. */
const MISSING_NAMES = {
  databaseName: 'nowhere',
  instanceName: 'nowhere',
  groupName: 'nowhere',
  location: 'nowhere',
  username: 'nobody',
  email: 'nobody@example.test',
  tokenName: 'no such \u00fc',
  tokenId: 'nothing',
  jwksName: 'nothing',
  databaseId: 'nothing',
  groupId: 'nothing',
}

type Scopes = KnownRoute['scopes']
const PUBLIC_SCOPES: Scopes = { min_level: 'none', group_scope: null, role: null }
const ANY_TOKEN_SCOPES: Scopes = { ...PUBLIC_SCOPES, min_level: 'any' }
const READ_SCOPES: Scopes = { min_level: 'group', group_scope: 'read', role: null }
const ADMIN_SCOPES: Scopes = { min_level: 'organization', group_scope: null, role: 'owner or admin' }

const ORGANIZATION_PATH = '/v1/organizations/{organizationSlug}'
/** Permissions of routes for which the documentation has none, or only vague ones, with the reason for each. */
const ASSUMED_SCOPES: Readonly<Record<string, Scopes>> = {
  // the CLI requests it with any kind of token, to determine the organization
  'GET /v2/organizations': ANY_TOKEN_SCOPES,
  // the scope `read` also covers usage and locations
  [`GET ${ORGANIZATION_PATH}/usage`]: READ_SCOPES,
  'GET /v2/organizations/{organizationSlug}/locations': READ_SCOPES,
  // always 501
  [`POST ${ORGANIZATION_PATH}/billing/portal`]: ADMIN_SCOPES,
  [`PUT ${ORGANIZATION_PATH}/billing/customer`]: ADMIN_SCOPES,
  'POST /v1/oauth/authorize': PUBLIC_SCOPES,
  'POST /v1/oauth/token': PUBLIC_SCOPES,
}
const scopesOf = ({ method, path, scopes }: KnownRoute): Scopes =>
  ASSUMED_SCOPES[`${method} ${path}`] ?? scopes

/** Routes that the list lacks, with the permissions that the CLI expects. */
const ADDITIONAL_ROUTES: readonly KnownRoute[] = [
  ['POST', `${ORGANIZATION_PATH}/invite`, ADMIN_SCOPES] as const,
  ['POST', '/v1/billing/portal', { ...PUBLIC_SCOPES, min_level: 'unrestricted' }] as const,
  ['GET', '/v1/billing/payment-methods', { ...PUBLIC_SCOPES, min_level: 'unrestricted' }] as const,
].map(([method, path, scopes]) => ({ method, path, scopes, response: { status: 200, body: null } }))

const ROUTES = [...DOCUMENTED_ROUTES, ...UNDOCUMENTED_ROUTES, ...ADDITIONAL_ROUTES]

/** Routes that would break the test if a call succeeded, so only callers that must be rejected call them. */
const DESTRUCTIVE_ROUTES = ['POST /v1/auth/invalidate', `DELETE ${ORGANIZATION_PATH}`]

/** Returns whether the documented permissions allow a call; if none are documented, whether the caller's role should allow it. */
function isAllowed(route: KnownRoute, caller: Caller): boolean {
  const { method, path } = route
  const scopes = scopesOf(route)
  if (path === '/v1/organizations' && method === 'GET') return true
  if (scopes.min_level === 'any') return true
  if (path.startsWith('/v1/locations'))
    return caller.level !== 'group' || caller.scopes?.includes('read') === true
  if (scopes.min_level === 'unrestricted') return caller.level === 'unrestricted'
  if (isAboutOrganization(route) && caller.isForeign === true) return false
  if (caller.level === 'group')
    return scopes.min_level === 'group' && caller.scopes?.includes(scopes.group_scope ?? '') === true
  // the permission determines which tokens are listed or found, not whether the call is allowed
  if (path.includes('/api-tokens')) return true
  if (scopes.role === 'owner') return caller.role === 'owner'
  const needsAdmin = scopes.role?.includes('admin') === true
  if (needsAdmin) return caller.role === 'owner' || caller.role === 'admin'
  return (method === 'GET' && scopes.role !== 'member') || caller.role !== 'viewer'
}

/**
 * Returns whether a caller is allowed, or the status of the rejection: any caller is allowed if no token is needed, an invalid
 * token is rejected, and permissions decide otherwise. For callers who do not belong to an organization, the organization does
 * not exist.
 */
function getExpectation(route: KnownRoute, caller: Caller): 'allowed' | 401 | 403 | 404 {
  if (scopesOf(route).min_level === 'none') return 'allowed'
  if (caller.rejected !== undefined) return caller.rejected
  if (isAllowed(route, caller)) return 'allowed'
  return caller.isForeign === true && isAboutOrganization(route) ? 404 : 403
}

function isAboutOrganization({ path }: KnownRoute): boolean {
  return /\{(?:organizationSlug|organizationId|slug)\}/.test(path)
}

/** Returns the problem with a route's response to a caller; null if there is none. */
async function findDifference(route: KnownRoute, caller: Caller): Promise<string | null> {
  const expected = getExpectation(route, caller)
  const { organization } = harness.platform
  const path = fill(route.path, {
    ...MISSING_NAMES,
    organizationSlug: organization,
    organizationId,
    slug: organization,
  })
  const hasBody = route.method !== 'GET' && route.method !== 'DELETE'
  const body = hasBody ? { body: '{"overages":1,"role":1}' } : {}
  const { status, body: reply } = await harness.sendRequest(route.method, path, {
    token: caller.token,
    ...body,
  })
  const isHidden = status === 404 && reply?.error === 'organization not found'
  const isRejected = status === 401 || status === 403 || isHidden
  const actual = isRejected ? status : status < 500 || status === 501 ? 'allowed' : status
  const call = `${caller.name}: ${route.method} ${path}`
  if (expected !== actual) return `${call}: ${actual}, not ${expected} ${JSON.stringify(reply)}`
  return isRejected && typeof reply?.error !== 'string' ? `${call}: ${status} without an error` : null
}

test('each route allows or rejects each kind of token as documented', { timeout: 240_000 }, async () => {
  const differences: string[] = []
  let [requestCount, skipped] = [0, 0]
  for (const route of ROUTES) {
    for (const caller of callers) {
      if (
        DESTRUCTIVE_ROUTES.includes(`${route.method} ${route.path}`) &&
        getExpectation(route, caller) === 'allowed'
      ) {
        skipped += 1
        continue
      }
      const difference = await findDifference(route, caller)
      if (difference !== null) differences.push(difference)
      requestCount += 1
    }
  }
  expect(differences).toEqual([])
  expect(callers).toHaveLength(23)
  expect(requestCount).toBe(ROUTES.length * callers.length - skipped)
  // the three owners of the organization, and callers with an unrestricted token
  expect(skipped).toBe(7)
})

test('rejections have the documented messages', async () => {
  const getError = async (token: string | null) =>
    (await harness.sendRequest('GET', '/v1/user', { token })).body.error
  expect(await getError('nonsense')).toBe('token contains an invalid number of segments')
  expect(await getError(await harness.tokenFor('app'))).toBe('could not parse jwt id')
  const { organization, token } = harness.platform
  expect((await harness.sendRequest('GET', `/v1/organizations/nowhere`, { token })).body).toEqual({
    error: 'organization not found',
  })
  const viewer = callers.find(({ name }) => name === 'viewer')?.token ?? ''
  const patched = await harness.sendRequest('PATCH', `/v1/organizations/${organization}/members/admin`, {
    token: viewer,
    body: { role: 'viewer' },
  })
  expect([patched.status, patched.body.error]).toEqual([
    403,
    'updating member roles is only allowed for admin or owner',
  ])
})

test('admins can list and revoke all tokens of their organization, members only their own', async () => {
  const { orgPath, platform } = harness
  const { organization } = platform
  const tokenFor = (name: string): string => callers.find((caller) => caller.name === name)?.token ?? ''
  const memberToken = await harness.createApiToken('by-member', { organization }, tokenFor('member'))
  expect(await harness.statusOf('GET', orgPath, { token: memberToken })).toBe(200)
  const listTokens = async (caller: string): Promise<{ name: string; id: string }[]> =>
    (await harness.requestOk('GET', 'api-tokens', { token: tokenFor(caller) })).tokens
  expect((await listTokens('member')).map(({ name }) => name)).toEqual(['by-member'])
  expect(await listTokens('viewer')).toEqual([])
  const tokens = await listTokens('admin')
  expect(tokens.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['organization', 'by-member', 'group-read']),
  )
  expect(tokens.map(({ name }) => name)).not.toContain('foreign')
  const idOf = (name: string): string => tokens.find((token) => token.name === name)?.id ?? ''
  const revoke = (id: string, caller: string) =>
    harness.sendRequest('DELETE', `api-tokens/${id}`, { token: tokenFor(caller) })
  // not 403, which would reveal that it exists
  expect((await revoke(idOf('organization'), 'member')).status).toBe(404)
  const foreign = (await harness.requestOk('GET', '/v1/auth/api-tokens', { token: tokenFor('stranger') }))
    .tokens
  const foreignId = foreign.find(({ name }: { name: string }) => name === 'foreign').id
  expect((await revoke(foreignId, 'admin')).status).toBe(404)
  expect(
    await harness.statusOf('GET', '/v1/organizations/other', { token: tokenFor('of another organization') }),
  ).toBe(200)
  expect(await revoke(idOf('by-member'), 'admin')).toEqual({
    status: 200,
    body: { token: idOf('by-member') },
  })
  expect(await harness.statusOf('GET', orgPath, { token: memberToken })).toBe(401)
  // a token for one organization does not reveal the tokens of another
  const path = `/v1/organizations/other/api-tokens/${foreignId}`
  const organizationToken = tokenFor('organization')
  expect(await harness.sendRequest('DELETE', path, { token: organizationToken })).toEqual({
    status: 404,
    body: { error: 'organization not found' },
  })
  // unrestricted tokens are not found there
  const unrestricted = (await harness.requestOk('GET', '/v1/auth/api-tokens')).tokens[0]
  expect((await revoke(unrestricted.id, 'admin')).status).toBe(404)
})
