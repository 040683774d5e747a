import { readFileSync } from 'node:fs'
import { createClient, HttpError } from '@batonsql/core'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import {
  type ApiToken,
  createPlatformClient,
  databaseUrl,
  isAlreadyExists,
  type PlatformClient,
  type PlatformFetch,
} from '@batonsql/platform'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'

// The platform client against the platform API of the local server, on each of its back ends.

interface Schema {
  readonly type?: string
  readonly fields?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly values?: Schema
  readonly nullable?: boolean
}
interface Route {
  readonly method: string
  readonly path: string
  readonly api: string
  readonly status: string
  readonly response: { readonly body: Schema | null }
}
const file = new URL('../fixtures/platform-routes.json', import.meta.url)
const documentedRoutes = (JSON.parse(readFileSync(file, 'utf8')) as Route[]).filter(
  ({ api, status }) => api === 'platform' && status === 'documented',
)

/** Returns the differences between a value and a schema. Missing fields are checked by the client. */
function findDifferences(value: unknown, schema: Schema, path: string): string[] {
  if (value === null) return schema.nullable ? [] : [`${path} is null`]
  if (schema.fields) {
    if (typeof value !== 'object') return [`${path} is not an object`]
    const fields = value as Readonly<Record<string, unknown>>
    return Object.entries(schema.fields).flatMap(([name, inner]) =>
      name in fields ? findDifferences(fields[name], inner, `${path}.${name}`) : [],
    )
  }
  if (schema.items) {
    if (!Array.isArray(value)) return [`${path} is not a list`]
    return value.flatMap((item, n) => findDifferences(item, schema.items as Schema, `${path}[${n}]`))
  }
  const expected =
    schema.type === 'integer' ? 'number' : schema.values ? 'object' : (schema.type ?? typeof value)
  return typeof value === expected ? [] : [`${path} is of type ${typeof value}`]
}

/** Returns whether a path matches that of a route, in which parts in braces match anything. */
const matchesPath = (path: string, route: Route): boolean =>
  new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path)

const target = inject('target')
describe.skipIf(target !== 'embedded' && target !== 'sqld')('the platform API', () => {
  const responses: { method: string; path: string; status: number; text: string }[] = []
  let server: LocalServer
  let platform: PlatformClient
  const recordingFetch: PlatformFetch = async (url, init) => {
    const reply = await fetch(url, init)
    const text = await reply.text()
    const { pathname } = new URL(url)
    responses.push({ method: init.method, path: pathname, status: reply.status, text })
    return { status: reply.status, headers: reply.headers, text: async () => text }
  }
  const createClientFor = (token: string): PlatformClient => {
    const { url, organization } = server.platform as NonNullable<LocalServer['platform']>
    return createPlatformClient({ organization, token, url, fetch: recordingFetch })
  }
  beforeAll(async () => {
    const backend = target === 'sqld' ? 'sqld' : 'embedded'
    server = await startLocalServer({ backend, platform: { readyDelayMs: 300 } })
    platform = createClientFor(server.platform?.token as string)
  }, 180_000)
  afterAll(() => server.close())

  test('creates groups and databases once, waits until they are ready, branches and configures them', async () => {
    const group = { name: 'eu', location: 'local' }
    expect(await platform.groups.ensure(group)).toMatchObject({ created: true, group: { name: 'eu' } })
    expect(await platform.groups.ensure(group)).toMatchObject({ created: false })
    const error = await platform.groups.create(group).catch((error: unknown) => error)
    expect(isAlreadyExists(error)).toBe(true)

    const { hostname } = await platform.databases.create({ name: 'db', group: 'eu' })
    const client = createClient({ url: databaseUrl(hostname), maxRetries: 0 })
    await expect(client.execute('select 1')).rejects.toThrow(HttpError)
    await client.close()
    await platform.databases.waitUntilReady('db')
    const branch = { name: 'branch', group: 'eu', seed: { type: 'database', name: 'db' } } as const
    const ensured = await platform.databases.ensure(branch, { wait: true })
    expect(ensured).toMatchObject({ created: true, database: { parent: { name: 'db' } } })
    expect(await platform.databases.ensure(branch)).toMatchObject({ created: false })
    await expect(platform.databases.ensure({ name: 'db', group: 'default' })).rejects.toThrow(
      'differs from the request',
    )

    const names = []
    for await (const { name } of platform.databases.list({ group: 'eu', pageSize: 1 })) names.push(name)
    expect(names.toSorted()).toEqual(['branch', 'db'])
    expect(
      await platform.databases.updateConfiguration('db', { blockReads: false, sizeLimit: '10mb' }),
    ).toMatchObject({ sizeLimit: '10mb' })
    expect(await platform.databases.getConfiguration('db')).toMatchObject({ blockReads: false })
    const [instance] = await platform.databases.listInstances('db')
    expect(await platform.databases.getInstance('db', instance?.name as string)).toEqual(instance)
    expect(await platform.groups.updateConfiguration('eu', { deleteProtection: true })).toEqual({
      deleteProtection: true,
    })
    await expect(platform.groups.delete('eu')).rejects.toThrow('protected')
    await platform.groups.updateConfiguration('eu', { deleteProtection: false })
    expect(await platform.groups.getConfiguration('eu')).toEqual({ deleteProtection: false })
    const changes = [
      () => platform.groups.addLocation('eu', 'ams'),
      () => platform.groups.removeLocation('eu', 'ams'),
    ]
    for (const change of changes)
      if (target === 'sqld') await change()
      else await expect(change()).rejects.toMatchObject({ status: 501 })
    await platform.groups.unarchive('eu')
    await platform.groups.update('eu')
    expect(await platform.groups.get('eu')).toMatchObject({ primary: 'local' })
    expect((await platform.groups.list()).map(({ name }) => name).toSorted()).toEqual(['default', 'eu'])
  })

  test('tokens are renewed automatically, and become invalid after a rotation', async () => {
    const { hostname } = await platform.databases.get('db')
    const authToken = platform.databaseToken({ database: 'db', expiration: '2s' })
    const groupToken = platform.databaseToken({ group: 'eu', expiration: '1h', authorization: 'read-only' })
    const db = createClient({ url: databaseUrl(hostname), authToken })
    const reader = createClient({ url: databaseUrl(hostname), authToken: groupToken })
    await db.batch(['create table t (a)', 'insert into t values (1)'])
    const before = responses.filter(({ path }) => path.endsWith('/auth/tokens')).length
    // longer than the lifetime of a token
    const until = Date.now() + 4_000
    while (Date.now() < until) {
      expect((await db.execute('select a from t')).rows).toEqual([{ a: 1 }])
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    const tokenCount = responses.filter(({ path }) => path.endsWith('/auth/tokens')).length - before
    expect(tokenCount).toBeGreaterThanOrEqual(1)
    expect(tokenCount).toBeLessThanOrEqual(4)
    expect((await reader.execute('select a from t')).rows).toEqual([{ a: 1 }])
    await expect(reader.execute('insert into t values (2)')).rejects.toMatchObject({ status: 403 })

    await platform.databases.rotateTokens('db')
    await platform.groups.rotateTokens('eu')
    await expect(reader.execute('select a from t')).rejects.toMatchObject({ status: 401 })
    authToken.forget()
    groupToken.forget()
    expect((await db.execute('select a from t')).rows).toEqual([{ a: 1 }])
    expect((await reader.execute('select a from t')).rows).toEqual([{ a: 1 }])
    await Promise.all([db.close(), reader.close()])
  })

  test('returns the usage, and the queries with the highest usage', async () => {
    const { total } = await platform.databases.usage('db', {
      from: new Date(Date.now() - 3_600_000),
      to: new Date(),
    })
    expect(total?.rowsWritten).toBeGreaterThan(0)
    const { usage, databases } = await platform.organizations.usage()
    expect(usage.databases).toBe(databases.length)
    // null if the back end does not measure it
    const stats = await platform.databases.stats('db')
    expect(stats === null || stats.every(({ query }) => typeof query === 'string')).toBe(true)
  })

  test('manages members, invitations and organizations', async () => {
    await server.platform?.createUser({ username: 'ada' })
    expect(await platform.members.add({ username: 'ada', role: 'viewer' })).toEqual({
      username: 'ada',
      role: 'viewer',
    })
    expect(isAlreadyExists(await platform.members.add({ username: 'ada' }).catch((e: unknown) => e))).toBe(
      true,
    )
    expect(await platform.members.updateRole('ada', 'admin')).toMatchObject({ role: 'admin' })
    expect(await platform.members.get('ada')).toMatchObject({ username: 'ada', role: 'admin' })
    expect((await platform.members.list()).map(({ username }) => username)).toContain('ada')
    expect(await platform.members.remove('ada')).toMatchObject({ deleted: true })
    expect(await platform.members.remove('ada', { missingOk: true })).toMatchObject({ deleted: false })

    await platform.invites.create({ email: 'alan+1@example.com', role: 'admin' })
    expect((await platform.invites.list()).map(({ email }) => email)).toEqual(['alan+1@example.com'])
    expect(await platform.invites.delete('alan+1@example.com')).toEqual({ deleted: true, raw: undefined })
    expect(await platform.invites.delete('alan+1@example.com', { missingOk: true })).toMatchObject({
      deleted: false,
    })

    const { slug } = await platform.organizations.get()
    expect((await platform.organizations.list()).map((organization) => organization.slug)).toContain(slug)
    expect(await platform.organizations.update({ overages: true })).toMatchObject({ overages: true })
    expect(await platform.organizations.subscription()).toHaveProperty('plan')
    expect((await platform.organizations.plans()).length).toBeGreaterThan(0)
    expect(await platform.organizations.invoices({ type: 'all' })).toEqual([])
    expect(await platform.locations.list()).toHaveProperty('local')
    expect(await platform.users.current()).toHaveProperty('username')
    const unknownOrganization = platform.forOrganization('nobody')
    await expect(unknownOrganization.databases.delete('db', { missingOk: true })).rejects.toThrow(
      'organization not found',
    )
  })

  test('creates API tokens with permissions', async () => {
    expect(await platform.apiTokens.validate()).toEqual({ expiresAt: null })
    const organization = platform.apiTokens.validate().then(() => server.platform?.organization as string)
    const scope = { organization: await organization, group: 'eu', scopes: ['read-only'] } as const
    const { token } = await platform.apiTokens.create({ name: 'reader', ...scope })
    const reader = createClientFor(token)
    expect(await reader.databases.get('db')).toMatchObject({ name: 'db' })
    await expect(reader.databases.delete('db')).rejects.toMatchObject({ status: 403 })
    const isReader = ({ name }: ApiToken): boolean => name === 'reader'
    expect((await platform.apiTokens.list()).find(isReader)?.scopes).toEqual(['read'])
    const { id } = (await platform.apiTokens.listOfOrganization()).find(isReader) as ApiToken
    expect(await platform.apiTokens.revokeOfOrganization(id)).toMatchObject({ deleted: true })
    await expect(reader.databases.get('db')).rejects.toMatchObject({ status: 401 })
    await platform.apiTokens.create({ name: 'second' })
    expect(await platform.apiTokens.revoke('second')).toMatchObject({ deleted: true })
    const entries = await platform.auditLogs.list({ pageSize: 3 }).toArray()
    expect(entries.length).toBeGreaterThan(6)
    expect(new Set(entries.map((entry) => JSON.stringify(entry))).size).toBe(entries.length)
  })

  test('invalid names do not reach other routes', async () => {
    for (const name of ['a/../db', '../groups/eu', 'db?x', 'db#y', '%2e%2e', 'ü'])
      await expect(platform.databases.get(name)).rejects.toMatchObject({ outcome: 'not_applied' })
  })

  test('deletes resources with all of their contents', async () => {
    expect(await platform.databases.delete('branch')).toMatchObject({ deleted: true })
    await expect(platform.databases.delete('branch')).rejects.toMatchObject({ status: 404 })
    expect(await platform.databases.delete('branch', { missingOk: true })).toMatchObject({ deleted: false })
    // a group is transferred together with its databases
    await platform.request('POST', '/v1/organizations', { body: { name: 'other' } })
    expect(await platform.groups.transfer('eu', 'other')).toMatchObject({ name: 'eu' })
    await expect(platform.databases.get('db')).rejects.toMatchObject({ status: 404 })
    const newOwner = platform.forOrganization('other')
    expect(await newOwner.databases.get('db')).toMatchObject({ name: 'db' })
    expect(await newOwner.groups.delete('eu')).toMatchObject({ deleted: true })
    await expect(newOwner.databases.get('db')).rejects.toMatchObject({ status: 404 })
  })

  test('every documented route was called, succeeded, and responded as documented', () => {
    const isResponseTo = (route: Route) => (reply: (typeof responses)[number]) =>
      reply.status === 200 && reply.method === route.method && matchesPath(reply.path, route)
    // embedded databases have no replicas
    const isSupported = ({ path }: Route): boolean =>
      target === 'sqld' || !path.includes('{groupName}/locations/')
    const missing = documentedRoutes
      .filter(isSupported)
      .filter((route) => !responses.some(isResponseTo(route)))
    expect(missing.map(({ method, path }) => `${method} ${path}`)).toEqual([])
    const differences = responses
      .filter(({ status }) => status === 200)
      .flatMap(({ method, path, text }) => {
        const route = documentedRoutes.find(
          (candidate) => candidate.method === method && matchesPath(path, candidate),
        )
        const schema = route?.response.body
        if (!schema) return text === '' || !route ? [] : [`${method} ${path} has a body`]
        return findDifferences(JSON.parse(text), schema, `${method} ${route.path}:`)
      })
    expect([...new Set(differences)]).toEqual([])
  })
})
