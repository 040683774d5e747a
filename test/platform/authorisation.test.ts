import { afterAll, beforeAll, expect, test } from 'vitest'
import { DOCUMENTED_ROUTES, type DocumentedRoute, fill } from './documented-routes.ts'
import { Scene } from './platform-scene.ts'

const SCOPES = [
  'read',
  'db:create',
  'db:delete',
  'db:configure',
  'db:mint-token',
  'db:rotate-creds',
  'group:configure',
  'group:mint-token',
  'group:rotate-creds',
]

/** A token, and what is known of it without asking the server. */
interface Caller {
  readonly name: string
  readonly token: string | null
  /** The status of everything, for a token that is none. */
  readonly refused?: 401
  readonly level: 'unrestricted' | 'organization' | 'group'
  /** Whether it reaches the organization that is asked about. */
  readonly isForeign?: boolean
  readonly scopes?: readonly string[]
  readonly role: 'owner' | 'admin' | 'member' | 'viewer'
}

let scene: Scene
const callers: Caller[] = []

beforeAll(async () => {
  scene = await Scene.start()
  const { platform, own } = scene
  const organization = platform.organization
  const owner = { level: 'organization', role: 'owner' } as const
  await scene.done('POST', `${own}/groups`, { body: { name: 'team', location: 'local' } })
  await scene.done('POST', `${own}/groups`, { body: { name: 'doomed', location: 'local' } })
  await scene.create('app', { group: 'team' })
  const group = 'team'
  const databaseToken = await scene.tokenFor('app')
  const revoked = await scene.mint('revoked')
  await scene.done('DELETE', '/v1/auth/api-tokens/revoked')
  const orphan = await scene.mint('orphan', { organization, group: 'doomed', scopes: ['full-access'] })
  await scene.done('DELETE', `${own}/groups/doomed`)
  callers.push(
    { ...owner, name: 'no token', token: null, refused: 401 },
    { ...owner, name: 'no JWT', token: 'nonsense', refused: 401 },
    { ...owner, name: 'database token', token: databaseToken, refused: 401 },
    { ...owner, name: 'revoked', token: revoked, refused: 401 },
    { ...owner, name: 'of a deleted group', token: orphan, refused: 401 },
    { ...owner, name: 'unrestricted', token: platform.token, level: 'unrestricted' },
    { ...owner, name: 'organization', token: await scene.mint('organization', { organization }) },
  )
  for (const scope of [...SCOPES, 'read-only', 'full-access']) {
    const token = await scene.mint(`group-${scope.replace(':', '-')}`, {
      organization,
      group,
      scopes: [scope],
    })
    const scopes = { 'read-only': ['read'], 'full-access': SCOPES }[scope] ?? [scope]
    callers.push({ name: `group ${scope}`, token, level: 'group', scopes, role: 'owner' })
  }
  for (const role of ['member', 'viewer', 'admin'] as const) {
    const token = await platform.createUser({ username: role })
    await scene.done('POST', `${own}/members`, { body: { username: role, role } })
    callers.push({ name: role, token, level: 'unrestricted', role })
  }
  const stranger = await platform.createUser({ username: 'stranger' })
  await scene.done('POST', '/v1/organizations', { token: stranger, body: { name: 'other' } })
  const foreign = await scene.mint('foreign', { organization: 'other' }, stranger)
  callers.push(
    { ...owner, name: 'of another organization', token: foreign, isForeign: true },
    { ...owner, name: 'stranger', token: stranger, level: 'unrestricted', isForeign: true },
  )
})
afterAll(() => scene[Symbol.asyncDispose]())

/** Nothing of it exists, so that whoever is let in changes nothing. */
const NOWHERE = {
  databaseName: 'nowhere',
  instanceName: 'nowhere',
  groupName: 'nowhere',
  location: 'nowhere',
  username: 'nobody',
  email: 'nobody@example.test',
  tokenName: 'no such \u00fc',
  tokenId: 'nothing',
}

/** What the documents say, as far as they do; where they are silent, what a role is for. */
function isAllowed({ method, path, scopes }: DocumentedRoute, caller: Caller): boolean {
  const isAboutOrganization = path.includes('{organizationSlug}') || path.includes('{slug}')
  if (path === '/v1/organizations' || scopes.min_level === 'any') return true
  if (path === '/v1/locations') return caller.level !== 'group' || caller.scopes?.includes('read') === true
  if (scopes.min_level === 'unrestricted') return caller.level === 'unrestricted'
  if (isAboutOrganization && caller.isForeign === true) return false
  if (caller.level === 'group')
    return scopes.min_level === 'group' && caller.scopes?.includes(scopes.group_scope ?? '') === true
  // revoking tokens narrows what is found instead
  if (path.includes('/api-tokens')) return true
  const needsAdmin = scopes.role?.includes('admin') === true
  if (needsAdmin) return caller.role === 'owner' || caller.role === 'admin'
  return method === 'GET' || caller.role !== 'viewer'
}

test('each route, by each kind of token: let in or refused as documented', { timeout: 120_000 }, async () => {
  const differences: string[] = []
  let asked = 0
  for (const route of DOCUMENTED_ROUTES) {
    for (const caller of callers) {
      const { organization } = scene.platform
      const path = fill(route.path, { ...NOWHERE, organizationSlug: organization, slug: organization })
      const body =
        route.method === 'GET' || route.method === 'DELETE' ? {} : { body: '{"overages":1,"role":1}' }
      const { status, body: answer } = await scene.ask(route.method, path, { token: caller.token, ...body })
      asked += 1
      const isRefused = status === 401 || status === 403
      const wanted = caller.refused ?? (isAllowed(route, caller) ? 'let in' : 403)
      const found = isRefused ? status : status < 500 ? 'let in' : status
      if (wanted !== found)
        differences.push(
          `${caller.name}: ${route.method} ${path}: ${found}, not ${wanted} ${JSON.stringify(answer)}`,
        )
      if (isRefused && typeof answer?.error !== 'string')
        differences.push(`${path}: ${status} without an error`)
    }
  }
  expect(differences).toEqual([])
  expect(asked).toBe(DOCUMENTED_ROUTES.length * callers.length)
  expect(callers).toHaveLength(23)
})

test('the words of refusals that are known', async () => {
  const error = async (token: string | null) => (await scene.ask('GET', '/v1/user', { token })).body.error
  expect(await error('nonsense')).toBe('token contains an invalid number of segments')
  expect(await error(await scene.tokenFor('app'))).toBe('could not parse jwt id')
  const { organization, token } = scene.platform
  expect((await scene.ask('GET', `/v1/organizations/nowhere`, { token })).body).toEqual({
    error: 'organization not found',
  })
  const viewer = callers.find(({ name }) => name === 'viewer')?.token ?? ''
  const patched = await scene.ask('PATCH', `/v1/organizations/${organization}/members/admin`, {
    token: viewer,
    body: { role: 'viewer' },
  })
  expect([patched.status, patched.body.error]).toEqual([
    403,
    'updating member roles is only allowed for admin or owner',
  ])
})

test('tokens of others: admins see and revoke all of the organization, members their own, and nobody a foreign one', async () => {
  const { own, platform } = scene
  const { organization } = platform
  const tokenOf = (name: string): string => callers.find((caller) => caller.name === name)?.token ?? ''
  const mine = await scene.mint('by-member', { organization }, tokenOf('member'))
  expect((await scene.ask('GET', own, { token: mine })).status).toBe(200)
  const listed = async (who: string): Promise<{ name: string; id: string }[]> =>
    (await scene.done('GET', `${own}/api-tokens`, { token: tokenOf(who) })).tokens
  expect((await listed('member')).map(({ name }) => name)).toEqual(['by-member'])
  expect(await listed('viewer')).toEqual([])
  const all = await listed('admin')
  expect(all.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['organization', 'by-member', 'group-read']),
  )
  expect(all.map(({ name }) => name)).not.toContain('foreign')
  const idOf = (name: string): string => all.find((token) => token.name === name)?.id ?? ''
  const revoke = (id: string, who: string) =>
    scene.ask('DELETE', `${own}/api-tokens/${id}`, { token: tokenOf(who) })
  // not 403: nobody learns that it exists
  expect((await revoke(idOf('organization'), 'member')).status).toBe(404)
  const foreign = (await scene.done('GET', '/v1/auth/api-tokens', { token: tokenOf('stranger') })).tokens
  const foreignId = foreign.find(({ name }: { name: string }) => name === 'foreign').id
  expect((await revoke(foreignId, 'admin')).status).toBe(404)
  expect(
    (await scene.ask('GET', '/v1/organizations/other', { token: tokenOf('of another organization') })).status,
  ).toBe(200)
  expect(await revoke(idOf('by-member'), 'admin')).toEqual({
    status: 200,
    body: { token: idOf('by-member') },
  })
  expect((await scene.ask('GET', own, { token: mine })).status).toBe(401)
  // unrestricted ones are not found there
  const unrestricted = (await scene.done('GET', '/v1/auth/api-tokens')).tokens[0]
  expect((await revoke(unrestricted.id, 'admin')).status).toBe(404)
})
