import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type PlatformRequest, scriptedPlatform } from '../../test-support/scripted-platform.ts'
import type { PlatformClient } from './platform-client.ts'

// Every route of the platform API has a method, and every method is one of its routes: by its table, which names the service's
// documentation and tools as its sources. Each call is made once, with all that it takes, and answered as documented.

interface Schema {
  readonly type?: string
  readonly fields?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly values?: Schema
  readonly enum?: readonly string[]
}
interface Row {
  readonly method: string
  readonly path: string
  readonly api: string
  readonly status: string
  readonly request: {
    readonly query?: Readonly<Record<string, unknown>>
    readonly body: { readonly content_type: string; readonly schema: Schema } | null
  }
  readonly response: { readonly body: Schema | null }
}

const file = new URL('../../../../test/fixtures/platform-routes.json', import.meta.url)
const rows = (JSON.parse(readFileSync(file, 'utf8')) as Row[]).filter(({ api }) => api === 'platform')
/** The routes for browsers, which take a client's secret and not a token. */
const routes = rows.filter(({ status }) => status !== 'docs-page')
const nameOf = ({ method, path }: { method: string; path: string }): string => `${method} ${path}`

const permissions = [{ tables: ['t'], actions: ['data_read'] }]
const mint = { expiration: '1h', authorization: 'read-only', readAttach: ['id'], permissions } as const
const reach = { organization: 'acme', group: 'default', scopes: ['read'] } as const
const encryption = { encryptionKey: 'k', encryptionCipher: 'aes256gcm' }
const file1 = new Blob(['select 1;'])
const [db, group, instance, location] = ['{databaseName}', '{groupName}', '{instanceName}', '{location}']
const [id, dbId, groupId] = ['{organizationId}', '{databaseId}', '{groupId}']

/** Every method with all of its arguments. Names of a path are those of its pattern. */
const CALLS: Readonly<Record<string, (platform: PlatformClient) => Promise<unknown>>> = {
  'databases.list': (p) => p.databases.list({ group: 'g', schema: 's', parent: 'p' }).page(),
  'databases.create': (p) =>
    p.databases.create({
      name: 'db',
      group: 'default',
      seed: { type: 'database', name: 'other', timestamp: new Date(0) },
      sizeLimit: '1gb',
      remoteEncryption: encryption,
    }),
  'databases.get': (p) => p.databases.get(db),
  'databases.delete': (p) => p.databases.delete(db),
  'databases.getConfiguration': (p) => p.databases.getConfiguration(db),
  'databases.updateConfiguration': (p) =>
    p.databases.updateConfiguration(db, {
      sizeLimit: '1gb',
      allowAttach: true,
      blockReads: false,
      blockWrites: false,
      deleteProtection: true,
      allowedIps: [],
      allowedAwsVpcIds: [],
    }),
  'databases.listInstances': (p) => p.databases.listInstances(db),
  'databases.getInstance': (p) => p.databases.getInstance(db, instance),
  'databases.createToken': (p) => p.databases.createToken(db, mint),
  'databases.usage': (p) => p.databases.usage(db, { from: new Date(0), to: new Date(1) }),
  'databases.stats': (p) => p.databases.stats(db),
  'databases.rotateTokens': (p) => p.databases.rotateTokens(db),
  'groups.list': (p) => p.groups.list(),
  'groups.create': (p) => p.groups.create({ name: 'g', location: 'local', extensions: 'all' }),
  'groups.get': (p) => p.groups.get(group),
  'groups.delete': (p) => p.groups.delete(group),
  'groups.getConfiguration': (p) => p.groups.getConfiguration(group),
  'groups.updateConfiguration': (p) => p.groups.updateConfiguration(group, { deleteProtection: true }),
  'groups.transfer': (p) => p.groups.transfer(group, 'other'),
  'groups.unarchive': (p) => p.groups.unarchive(group),
  'groups.addLocation': (p) => p.groups.addLocation(group, location),
  'groups.removeLocation': (p) => p.groups.removeLocation(group, location),
  'groups.update': (p) => p.groups.update(group),
  'groups.createToken': (p) => p.groups.createToken(group, mint),
  'groups.rotateTokens': (p) => p.groups.rotateTokens(group),
  'locations.list': (p) => p.locations.list(),
  'organizations.list': (p) => p.organizations.list(),
  'organizations.get': (p) => p.organizations.get(),
  'organizations.update': (p) => p.organizations.update({ overages: true, requireMfa: false }),
  'organizations.plans': (p) => p.organizations.plans(),
  'organizations.invoices': (p) => p.organizations.invoices({ type: 'issued' }),
  'organizations.subscription': (p) => p.organizations.subscription(),
  'organizations.usage': (p) => p.organizations.usage(),
  'members.list': (p) => p.members.list(),
  'members.add': (p) => p.members.add({ username: 'ada', role: 'viewer' }),
  'members.get': (p) => p.members.get('{username}'),
  'members.updateRole': (p) => p.members.updateRole('{username}', 'admin'),
  'members.remove': (p) => p.members.remove('{username}'),
  'apiTokens.validate': (p) => p.apiTokens.validate(),
  'apiTokens.list': (p) => p.apiTokens.list(),
  'apiTokens.create': (p) => p.apiTokens.create('{tokenName}', reach),
  'apiTokens.revoke': (p) => p.apiTokens.revoke('{tokenName}'),
  'apiTokens.listOfOrganization': (p) => p.apiTokens.listOfOrganization(),
  'apiTokens.revokeOfOrganization': (p) => p.apiTokens.revokeOfOrganization('{tokenId}'),
  'auditLogs.list': (p) => p.auditLogs.list().page(),
  'invites.list': (p) => p.invites.list(),
  'invites.create': (p) => p.invites.create({ email: 'ada@example.com', role: 'admin' }),
  'invites.delete': (p) => p.invites.delete('{email}'),
  'users.current': (p) => p.users.current(),
  'unstable.billing.plans': (p) => p.unstable.billing.plans(),
  'unstable.billing.updateSubscription': (p) =>
    p.unstable.billing.updateSubscription({ plan: 'scaler', timeline: 'yearly', overages: true }),
  'unstable.billing.createPortal': (p) => p.unstable.billing.createPortal(),
  'unstable.billing.hasPaymentMethod': (p) => p.unstable.billing.hasPaymentMethod(),
  'unstable.billing.getCustomer': (p) => p.unstable.billing.getCustomer(),
  'unstable.billing.updateCustomer': (p) =>
    p.unstable.billing.updateCustomer({
      name: 'n',
      email: 'e',
      taxId: { value: 'v', country: 'c' },
      billingAddress: { line1: 'l', postalCode: 'p' },
    }),
  'unstable.billing.createStripeCustomer': (p) => p.unstable.billing.createStripeCustomer('n'),
  'unstable.databases.addInstance': (p) => p.unstable.databases.addInstance(db, 'local'),
  'unstable.databases.removeInstance': (p) => p.unstable.databases.removeInstance(db, instance),
  'unstable.databases.waitForInstance': (p) => p.unstable.databases.waitForInstance(db, instance),
  'unstable.databases.seed': (p) => p.unstable.databases.seed(db, file1),
  'unstable.databases.uploadDump': (p) => p.unstable.databases.uploadDump(file1),
  'unstable.databases.queryUsage': (p) => p.unstable.databases.queryUsage(db, { from: new Date(0) }),
  'unstable.databases.transfer': (p) => p.unstable.databases.transfer(db, 'other'),
  'unstable.databases.wakeUp': (p) => p.unstable.databases.wakeUp(db),
  'unstable.databases.update': (p) => p.unstable.databases.update(db, { group: true }),
  'unstable.groups.rename': (p) => p.unstable.groups.rename(group, 'new'),
  'unstable.groups.waitForLocation': (p) => p.unstable.groups.waitForLocation(group, location),
  'unstable.groups.getAwsMigration': (p) => p.unstable.groups.getAwsMigration(group),
  'unstable.groups.startAwsMigration': (p) => p.unstable.groups.startAwsMigration(group),
  'unstable.groups.abortAwsMigration': (p) => p.unstable.groups.abortAwsMigration(group),
  'unstable.invites.list': (p) => p.unstable.invites.list(),
  'unstable.invites.create': (p) => p.unstable.invites.create({ email: 'e', role: 'viewer' }),
  'unstable.invites.delete': (p) => p.unstable.invites.delete('{email}'),
  'unstable.keySets.list': (p) => p.unstable.keySets.list(),
  'unstable.keySets.put': (p) => p.unstable.keySets.put('{jwksName}', { jwksUrl: 'u', region: 'r' }),
  'unstable.keySets.delete': (p) => p.unstable.keySets.delete('{jwksName}', { region: 'r' }),
  'unstable.keySets.createTemplate': (p) =>
    p.unstable.keySets.createTemplate({ database: 'd', group: 'g', scope: 'read-only', permissions }),
  'unstable.locations.list': (p) => p.unstable.locations.list(),
  'unstable.locations.get': (p) => p.unstable.locations.get(location),
  'unstable.organizations.list': (p) => p.unstable.organizations.list(),
  'unstable.organizations.create': (p) =>
    p.unstable.organizations.create({ name: 'n', stripeId: 's' }, { dryRun: true }),
  'unstable.organizations.delete': (p) => p.unstable.organizations.delete(),
  'unstable.tokens.create': (p) => p.unstable.tokens.create('{tokenName}', reach),
  'unstable.tokens.invalidateSessions': (p) => p.unstable.tokens.invalidateSessions(),
  'unstable.tokens.currentUser': (p) => p.unstable.tokens.currentUser(),
  'unstable.tokens.latestRelease': (p) => p.unstable.tokens.latestRelease(),
  'unstable.v3.listDatabases': (p) =>
    p.unstable.v3.listDatabases(id, { groupId: 'g', parentDbId: 'p' }).page('c'),
  'unstable.v3.createDatabase': (p) =>
    p.unstable.v3.createDatabase(id, {
      name: 'n',
      groupId: 'g',
      seed: { type: 'database', value: 'v', timestamp: 't', url: 'u' },
      remoteEncryption: encryption,
      useTursodb: false,
    }),
  'unstable.v3.getDatabase': (p) => p.unstable.v3.getDatabase(id, dbId),
  'unstable.v3.deleteDatabase': (p) => p.unstable.v3.deleteDatabase(id, dbId),
  'unstable.v3.createDatabaseToken': (p) =>
    p.unstable.v3.createDatabaseToken(id, dbId, { ...mint, readAttach: undefined }),
  'unstable.v3.listGroups': (p) => p.unstable.v3.listGroups(id),
  'unstable.v3.getGroup': (p) => p.unstable.v3.getGroup(id, groupId),
  'unstable.v3.createGroupToken': (p) =>
    p.unstable.v3.createGroupToken(id, groupId, { ...mint, readAttach: undefined }),
}

/** Made of several calls. */
const HELPERS = ['databases.ensure', 'databases.waitUntilReady', 'groups.ensure']
/** Sent, and not in the table's fields: what its notes say, and what it deprecates. */
const NOTED: Readonly<Record<string, readonly string[]>> = {
  'GET /v1/organizations/{organizationSlug}/databases': ['limit'],
  'POST /v1/organizations/{organizationSlug}/databases/{databaseName}/auth/tokens': [
    'fine_grained_permissions',
  ],
  'POST /v1/organizations/{organizationSlug}/groups/{groupName}/auth/tokens': ['fine_grained_permissions'],
}

/** A value of a schema, in which each text says where it stands. */
function sample(schema: Schema, name = 'it'): unknown {
  if (schema.fields)
    return Object.fromEntries(Object.entries(schema.fields).map(([key, each]) => [key, sample(each, key)]))
  if (schema.items) return [sample(schema.items, name)]
  if (schema.values) return { some_key: sample(schema.values, name) }
  if (schema.type === 'object') return { some_key: name }
  if (schema.type === 'integer') return 9_007_199_254_740_991
  return schema.type === 'boolean' ? true : (schema.enum?.[0] ?? `text of ${name}`)
}

const rowOf = ({ method, url }: PlatformRequest): Row | undefined =>
  routes.find((row) => nameOf(row) === nameOf({ method, path: decodeURIComponent(url.replace(/\?.*/, '')) }))

async function callAll() {
  const { platform, received } = await scriptedPlatform(
    (request) => {
      const row = rowOf(request)
      return row ? { body: row.response.body ? sample(row.response.body) : undefined } : { status: 404 }
    },
    { organization: '{organizationSlug}', maxRetries: 0 },
  )
  const results = new Map<string, { readonly request: PlatformRequest; readonly result: unknown }>()
  for (const [name, call] of Object.entries(CALLS)) {
    const result = await call(platform).catch((error: unknown) => error)
    results.set(name, { request: received.at(-1) as PlatformRequest, result })
  }
  return { platform, received, results }
}

/** Names of all methods of the client's parts. */
function methodsOf(part: object, prefix = ''): string[] {
  return Object.entries(part).flatMap(([name, value]) => {
    const own = Object.getOwnPropertyNames(Object.getPrototypeOf(value))
    const methods = own
      .filter((method) => method !== 'constructor')
      .map((method) => `${prefix}${name}.${method}`)
    return [...methods, ...methodsOf(value as object, `${prefix}${name}.`)]
  })
}

const { platform, received, results } = await callAll()

test('the documented routes are 49, and each has exactly one method', () => {
  const documented = routes.filter(({ status }) => status === 'documented').map(nameOf)
  expect(documented).toHaveLength(49)
  const stable = [...results].filter(([name]) => !name.startsWith('unstable.'))
  const called = stable.map(([, { request }]) => nameOf(rowOf(request) ?? { method: '?', path: request.url }))
  expect(called.toSorted()).toEqual(documented.toSorted())
})

test('each other route of its tools has exactly one method, under unstable', () => {
  const others = routes.filter(({ status }) => status !== 'documented').map(nameOf)
  const unstable = [...results].filter(([name]) => name.startsWith('unstable.'))
  const called = unstable.map(([, { request }]) =>
    nameOf(rowOf(request) ?? { method: '?', path: request.url }),
  )
  expect(called.toSorted()).toEqual(others.toSorted())
  expect(received).toHaveLength(routes.length)
})

test('there is no method that this test does not know', () => {
  expect(methodsOf(platform).toSorted()).toEqual([...Object.keys(CALLS), ...HELPERS].toSorted())
})

test.each([...results])(
  '%s sends what is documented, and reads what is answered',
  (_, { request, result }) => {
    expect(result).not.toBeInstanceOf(Error)
    const row = rowOf(request) as Row
    const noted = NOTED[nameOf(row)] ?? []

    const query = new URL(request.url, 'http://host').searchParams
    const isCursor = (name: string): boolean => name === 'cursor' || name === 'limit'
    const names = [...query.keys()].filter((name) => !noted.includes(name) && !isCursor(name))
    expect(names.toSorted()).toEqual(
      Object.keys(row.request.query ?? {})
        .filter((name) => !isCursor(name))
        .toSorted(),
    )

    const body = row.request.body
    if (!body) expect([request.body, request.headers['content-type']]).toEqual(['', undefined])
    else if (body.content_type === 'application/json') {
      expect(request.headers['content-type']).toBe('application/json')
      const sent = Object.keys(JSON.parse(request.body) as object).filter((name) => !noted.includes(name))
      const fields = Object.keys(body.schema.fields ?? {})
      // of an invitation either of the two
      expect(sent.toSorted()).toEqual(
        fields.filter((name) => name !== 'username' || !fields.includes('email')).toSorted(),
      )
    } else expect(request.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/)

    // all that was answered is there, as it came
    const answered = row.response.body ? sample(row.response.body) : undefined
    const [inner] = Object.values(answered ?? {}) as unknown[]
    const rawOf = (value: unknown): unknown => (value as { raw?: unknown }).raw
    const given = (result as { items?: unknown } | undefined)?.items ?? result
    if (Array.isArray(given)) expect([inner, answered]).toContainEqual(given.map(rawOf))
    else if (typeof given === 'object' && given !== null && 'raw' in given)
      expect([inner, answered]).toContainEqual(given.raw)
  },
)
