import { inspect } from 'node:util'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type PlatformRequest,
  type ScriptedResponse,
  scriptedPlatform,
  unsignedJwt,
} from '../test-support/scripted-platform.ts'
import { createPlatformClient, databaseUrl, type PlatformClient } from './index.ts'

const database = { Name: 'db', DbId: 'id', Hostname: 'db.example.com', group: 'default', parent: null }
const notFound = { status: 404, body: { error: 'could not find database with name db: record not found' } }
const alreadyExists = { status: 400, body: { error: 'database with same name already exists' } }

/** Returns all methods of a client that send requests, except `request`, by their names. */
function listMethods(platform: PlatformClient): [string, (...args: unknown[]) => unknown][] {
  return Object.entries(platform).flatMap(([group, methods]) =>
    typeof methods === 'object'
      ? Object.entries(methods).map(
          ([name, method]) => [`${group}.${name}`, method] as [string, (...args: unknown[]) => unknown],
        )
      : [],
  )
}

describe('decoding', () => {
  test('returns camel case keys at every depth, and the original object in raw', async () => {
    const raw = {
      ...database,
      block_reads: false,
      primaryRegion: 'aws',
      some_future_field: { InnerKey: [{ deep_key: null }] },
      type: 'a future type',
      ID: 7,
      OrganizationID: 8,
      ['__proto__']: { polluted: true },
    }
    const text = `{"database":${JSON.stringify(raw).replace('}', ',"__proto__":{"polluted":true}}')}}`
    const { platform } = scriptedPlatform({ text })
    const result = await platform.databases.get('db')
    expect(result).toMatchObject({
      name: 'db',
      dbId: 'id',
      blockReads: false,
      primaryRegion: 'aws',
      parent: null,
      someFutureField: { innerKey: [{ deepKey: null }] },
      type: 'a future type',
      id: 7,
      organizationId: 8,
    })
    expect(result.raw).toEqual((JSON.parse(text) as { database: unknown }).database)
    expect(Object.keys(result)).not.toContain('raw')
    expect((result as unknown as { polluted?: boolean }).polluted).toBeUndefined()
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  test('for a key that occurs in both spellings, returns one value, and keeps both in raw', async () => {
    const rawDatabase = { ...database, block_reads: true, blockReads: 'odd' }
    const { platform } = scriptedPlatform({ body: { database: rawDatabase } })
    expect(await platform.databases.get('db')).toMatchObject({ blockReads: 'odd', raw: rawDatabase })
  })

  test.each([
    ['bare', [{ slug: 'a' }], { name: 'g' }],
    ['wrapped', { organizations: [{ slug: 'a' }] }, { group: { name: 'g' } }],
  ])('reads a list or an object that is %s', async (_, list, group) => {
    const lists = scriptedPlatform({ body: list })
    expect(await lists.platform.organizations.list()).toEqual([{ slug: 'a' }])
    const groups = scriptedPlatform({ body: group })
    expect(await groups.platform.groups.transfer('g', 'other')).toEqual({ name: 'g' })
  })

  test.each(['total', 'usage'])('reads the total usage under the name %s', async (name) => {
    const figures = { rows_read: 1, rows_written: 2, storage_bytes: 3, bytes_synced: 4 }
    const body = { uuid: 'u', instances: [], [name]: figures }
    const { platform } = scriptedPlatform(({ url }) => ({
      body: url.includes('/databases/')
        ? { database: body }
        : { organization: { uuid: 'o', usage: {}, databases: [body, { uuid: 'none', instances: [] }] } },
    }))
    const total = { rowsRead: 1, rowsWritten: 2, storageBytes: 3, bytesSynced: 4 }
    const usage = await platform.databases.usage('db')
    expect(usage.total).toEqual(total)
    expect(usage.raw).toEqual(body)
    const { databases } = await platform.organizations.usage()
    expect(databases.map(({ total }) => total)).toEqual([total, null])
  })

  test.each<unknown>([{}, [1], 5, new Date(Number.NaN)])(
    'rejects the period %o before it is sent',
    async (from) => {
      const { platform, received } = scriptedPlatform({ body: {} })
      const usage = platform.databases.usage('db', { from } as never)
      await expect(usage).rejects.toThrow(/^from must be a valid Date or text/)
      expect(received).toEqual([])
    },
  )

  test('does not convert user data', async () => {
    const { platform } = scriptedPlatform(({ url }) => ({
      body: url.includes('locations')
        ? { locations: { 'aws-eu_west': 'Ireland' } }
        : { audit_logs: [{ code: 'db-create', data: { Some_Key: 1 } }] },
    }))
    expect(await platform.locations.list()).toEqual({ 'aws-eu_west': 'Ireland' })
    expect(await platform.auditLogs.list().toArray()).toEqual([{ code: 'db-create', data: { Some_Key: 1 } }])
  })

  test('returns undefined for an empty response, and keeps null', async () => {
    const { platform } = scriptedPlatform(({ url }) =>
      url.endsWith('/stats') ? { body: { top_queries: null } } : {},
    )
    expect(await platform.databases.rotateTokens('db')).toBeUndefined()
    expect(await platform.databases.stats('db')).toBeNull()
    expect(await platform.invites.delete('a@b.c')).toEqual({ deleted: true, raw: undefined })
  })

  test('reads the expiry of a token', async () => {
    const { platform } = scriptedPlatform((_, count) => ({ body: { exp: count === 1 ? -1 : 1_800_000_000 } }))
    expect(await platform.apiTokens.validate()).toEqual({ expiresAt: null })
    expect(await platform.apiTokens.validate()).toEqual({ expiresAt: new Date(1_800_000_000_000) })
  })
})

describe('requests', () => {
  test('a token without permissions is requested without a body, because some engines reject one', async () => {
    const { platform, received } = scriptedPlatform({ body: { jwt: 'j' } })
    await platform.databases.createToken('db')
    const permissions = [{ tables: null, actions: ['data_read' as const] }]
    await platform.groups.createToken('g', { expiration: '1h', permissions })
    await platform.databases.createToken('db', { readAttach: ['other'] })
    expect(received.map(({ url, body }) => [url.split('/').at(-1), body])).toEqual([
      ['tokens', ''],
      ['tokens?expiration=1h', '{"fine_grained_permissions":[{"t":null,"a":["data_read"]}]}'],
      ['tokens', '{"permissions":{"read_attach":{"databases":["other"]}}}'],
    ])
  })

  test('an argument that becomes the body must be text', async () => {
    const { platform, received } = scriptedPlatform({ body: {} })
    for (const invalid of [undefined, null, 1, {}] as never[]) {
      await expect(platform.members.updateRole('ada', invalid)).rejects.toThrow('role must be string')
      await expect(platform.groups.transfer('g', invalid)).rejects.toThrow('organization must be string')
    }
    expect(received).toEqual([])
  })

  test('creating an organization sends its name, and is never retried', async () => {
    const { platform, received } = scriptedPlatform(
      ({ url, body }) =>
        url === '/v1/organizations' && body === '{"name":"Acme"}'
          ? { body: { org: { name: 'Acme', slug: 'acme' } } }
          : { status: 502 },
      { maxRetries: 2 },
    )
    expect(await platform.organizations.create({ name: 'Acme' })).toEqual({ name: 'Acme', slug: 'acme' })
    const failing = platform.organizations.create({ name: 'Other' })
    await expect(failing).rejects.toMatchObject({ status: 502, outcome: 'unknown' })
    expect(received).toHaveLength(2)
    // @ts-expect-error -- not declared in the types either
    await expect(platform.organizations.create({ name: 'Acme', slug: 'acme' })).rejects.toThrow(TypeError)
    const malformed = scriptedPlatform({ body: { org: {} } })
    const created = malformed.platform.organizations.create({ name: 'Acme' })
    await expect(created).rejects.toMatchObject({ code: 'DECODE' })
  })

  test('an unrestricted API token is requested without a body', async () => {
    const { platform, received } = scriptedPlatform({ body: { id: '1', name: 'n', token: 's' } })
    expect(await platform.apiTokens.create({ name: 'n' })).toMatchObject({ token: 's' })
    await platform.apiTokens.create({ name: 'n', organization: 'acme', group: 'g', scopes: ['full-access'] })
    expect(received.map(({ body }) => body)).toEqual([
      '',
      '{"organization":"acme","group":"g","scopes":["full-access"]}',
    ])
  })

  test('a seed is sent unchanged, with its time as a string', async () => {
    const { platform, received } = scriptedPlatform({ body: { database } })
    const seed = Object.freeze({ type: 'database', name: 'old', timestamp: new Date(0) } as const)
    await platform.databases.create({ name: 'db', group: 'default', seed })
    expect(JSON.parse(received[0]?.body as string)).toEqual({
      name: 'db',
      group: 'default',
      seed: { type: 'database', name: 'old', timestamp: '1970-01-01T00:00:00.000Z' },
    })
    expect(seed.timestamp).toEqual(new Date(0))
  })

  test('misspelled options are rejected before anything is sent', async () => {
    const { platform, received } = scriptedPlatform({})
    const { databases, groups, invites } = platform
    const misspelled = { name: 'a', group: 'b', location: 'c', sizelimit: '1' } as never
    for (const [call, words] of [
      [() => databases.create({ name: 'a', group: 'b', sizelimit: '1' } as never), 'sizelimit'],
      [() => databases.updateConfiguration('a', { blockRead: true } as never), 'blockRead'],
      [() => databases.createToken('a', { authorization: 'read' as never }), "'read-only'"],
      [() => databases.list({ page: 1 } as never).toArray(), 'page'],
      [() => databases.list({ pageSize: 0 }).toArray(), 'pageSize'],
      [() => databases.list({ pageSize: Infinity }).toArray(), 'pageSize must be an integer from 1'],
      [() => databases.list(null as never).toArray(), 'expected options'],
      [() => databases.list().toArray({ limit: null as never }), 'limit must be an integer >= 0, not null'],
      [() => databases.list().toArray({ max: 5 } as object), 'unknown option max'],
      [() => databases.list().toArray(5 as never), 'expected options { limit }'],
      [() => invites.create({ email: 'a', username: 'b' } as never), 'either'],
      [() => invites.create({} as never), 'either'],
      [() => databases.ensure(misspelled), 'unknown option location'],
      [() => groups.ensure(misspelled), 'unknown option group'],
    ] as const)
      await expect(call()).rejects.toThrow(words)
    expect(received).toEqual([])
  })
})

describe('pages', () => {
  const page = ({ url }: PlatformRequest): ScriptedResponse => {
    const query = new URL(url, 'http://host').searchParams
    const at = Number(query.get('cursor') ?? 0)
    const limit = Number(query.get('limit'))
    const databases = Array.from({ length: Math.min(limit, 250 - at) }, (_, n) => ({
      ...database,
      Name: `db${at + n}`,
    }))
    return { body: { databases, pagination: { next: at + limit < 250 ? String(at + limit) : null } } }
  }

  test('are requested one at a time, with a limit, and only as they are read', async () => {
    const { platform, received } = scriptedPlatform(page)
    const names: string[] = []
    for await (const { name } of platform.databases.list()) names.push(name)
    expect(names).toEqual(Array.from({ length: 250 }, (_, n) => `db${n}`))
    expect(received.map(({ url }) => new URL(url, 'http://host').search)).toEqual([
      '?limit=100',
      '?limit=100&cursor=100',
      '?limit=100&cursor=200',
    ])
    expect(await platform.databases.list({ pageSize: 10 }).toArray({ limit: 15 })).toHaveLength(15)
    expect(received).toHaveLength(5)
    expect(await platform.databases.list().toArray({ limit: 0 })).toEqual([])
    expect(received).toHaveLength(5)
    const { items, next } = await platform.databases.list({ pageSize: 10 }).page('240')
    expect([items.length, next]).toEqual([10, null])
  })

  test('a service without pagination returns a single page', async () => {
    const { platform, received } = scriptedPlatform({ body: { databases: [database] } })
    expect(await platform.databases.list().toArray()).toHaveLength(1)
    expect(received).toHaveLength(1)
  })

  test('a page that refers to itself is an error', async () => {
    const { platform, received } = scriptedPlatform({
      body: { databases: [], pagination: { next: 'x' } },
    })
    await expect(platform.databases.list().toArray()).rejects.toThrow('the list does not end')
    expect(received).toHaveLength(2)
  })

  test('can be numbered', async () => {
    const { platform, received } = scriptedPlatform(({ url }) => {
      const at = Number(new URL(url, 'http://host').searchParams.get('page'))
      return { body: { audit_logs: [{ code: `c${at}` }], pagination: { page: at, total_pages: 3 } } }
    })
    const logs = await platform.auditLogs.list({ pageSize: 1 }).toArray()
    expect(logs.map(({ code }) => code)).toEqual(['c1', 'c2', 'c3'])
    expect(received.at(-1)?.url).toMatch('?page=3&page_size=1')
  })

  test('numbered pages end with an empty page, regardless of the reported count', async () => {
    const { platform, received } = scriptedPlatform({
      body: { audit_logs: [], pagination: { total_pages: 1_000_000 } },
    })
    expect(await platform.auditLogs.list().toArray()).toEqual([])
    expect(received).toHaveLength(1)
  })
})

describe('ensure', () => {
  const requestedDatabase = { name: 'db', group: 'default' }
  /** A service with at most one database, which responds to POST with `handlePost`. */
  const service = (initial: object | null, handlePost: (make: () => void) => ScriptedResponse) => {
    let stored = initial
    return scriptedPlatform(({ method }) => {
      if (method === 'POST') return handlePost(() => (stored = database))
      return stored ? { body: { database: stored } } : notFound
    })
  }
  const respondCreated = (make: () => void): ScriptedResponse => {
    make()
    return { body: { database } }
  }
  const failOnCreate = (): never => {
    throw new Error('nothing should be created')
  }

  test('creates a missing resource, and leaves an existing one unchanged', async () => {
    const fresh = service(null, respondCreated)
    const ensure = () => fresh.platform.databases.ensure(requestedDatabase)
    expect(await ensure()).toMatchObject({ created: true, database: { name: 'db' } })
    expect(await ensure()).toMatchObject({ created: false, database: { name: 'db' } })
    expect(fresh.received.filter(({ method }) => method === 'POST')).toHaveLength(1)
  })

  test('reads its arguments when it is called, even if the caller reuses them for the next call', async () => {
    const { platform, received } = scriptedPlatform(({ method }) =>
      method === 'POST' ? { body: { database, group: { name: 'g' } } } : notFound,
    )
    const options = {}
    const newDatabase = { name: '', group: 'default', seed: { type: 'database' as const, name: '' } }
    const newGroup = { name: '', location: 'aws-eu-west-1', extensions: [''] }
    const calls: Promise<unknown>[] = []
    for (const name of ['first', 'second']) {
      Object.assign(newDatabase, { name }).seed.name = `parent-of-${name}`
      Object.assign(newGroup, { name }).extensions[0] = `extension-of-${name}`
      calls.push(platform.databases.ensure(newDatabase, options), platform.groups.ensure(newGroup, options))
    }
    Object.assign(options, { signal: AbortSignal.abort(), timeoutMs: 0 })
    await Promise.allSettled(calls)
    const created = received
      .filter(({ method }) => method === 'POST')
      .map(({ body }) => JSON.parse(body as string) as object)
    expect(created).toHaveLength(4)
    for (const name of ['first', 'second']) {
      expect(created).toContainEqual({
        name,
        group: 'default',
        seed: { type: 'database', name: `parent-of-${name}` },
      })
      expect(created).toContainEqual({
        name,
        location: 'aws-eu-west-1',
        extensions: [`extension-of-${name}`],
      })
    }
  })

  test('returns the existing resource if another caller created it first', async () => {
    const race = service(null, (make) => {
      make()
      return alreadyExists
    })
    expect(await race.platform.databases.ensure(requestedDatabase)).toMatchObject({ created: false })
  })

  test('after a lost response, looks the resource up instead of creating it twice', async () => {
    const lossyService = service(null, (make) => {
      make()
      return { drop: true }
    })
    expect(await lossyService.platform.databases.ensure(requestedDatabase)).toMatchObject({ created: true })
    expect(lossyService.received.map(({ method }) => method)).toEqual(['GET', 'POST', 'GET'])
    const failingService = service(null, () => ({ drop: true }))
    const failing = failingService.platform.databases.ensure(requestedDatabase)
    await expect(failing).rejects.toMatchObject({ outcome: 'unknown' })
  })

  const seed = { type: 'database', name: 'old' } as const
  const branch = { ...database, parent: { name: 'old' } }
  test.each([
    ['in another group', { ...database, group: 'eu' }, {}, 'it is in group "eu", not "default"'],
    ['a branch', branch, {}, 'it was branched from "old"'],
    ['not a branch', database, { seed }, 'it was not branched from a database'],
  ])('an existing database that is %s is a mismatch', async (_, existing, requested, words) => {
    const { platform } = service(existing, failOnCreate)
    const call = platform.databases.ensure({ ...requestedDatabase, ...requested })
    const path = '/v1/organizations/acme/databases/db'
    await expect(call).rejects.toMatchObject({ code: 'MISMATCH', outcome: 'not_applied', path })
    await expect(call).rejects.toThrow(words)
  })

  test('accepts a branch of the requested database', async () => {
    const { platform } = service(branch, failOnCreate)
    expect(await platform.databases.ensure({ ...requestedDatabase, seed })).toMatchObject({ created: false })
  })

  test('rejects with other errors', async () => {
    const { platform, received } = service(null, () => ({ status: 400, body: { error: 'group not found' } }))
    await expect(platform.databases.ensure(requestedDatabase)).rejects.toThrow('group not found')
    expect(received).toHaveLength(2)
    const noOrganization = { status: 404, body: { error: 'organization not found' } }
    const { platform: foreign } = scriptedPlatform(noOrganization)
    await expect(foreign.databases.ensure(requestedDatabase)).rejects.toThrow('organization not found')
  })

  test('ensures a group', async () => {
    const group = { name: 'g', primary: 'local' }
    let stored: object | null = null
    const { platform } = scriptedPlatform(({ method }) => {
      if (method === 'GET')
        return stored ? { body: { group: stored } } : { status: 404, body: { error: 'group not found' } }
      if (stored) return { status: 409, body: { error: 'group already exists' } }
      stored = group
      return { body: { group } }
    })
    for (const created of [true, false])
      expect(await platform.groups.ensure({ name: 'g', location: 'local' })).toMatchObject({ created })
    const elsewhere = platform.groups.ensure({ name: 'g', location: 'ams' })
    await expect(elsewhere).rejects.toThrow('its primary is in "local"')
  })
})

describe('readiness', () => {
  /** A platform, and the host of a new database, which is not ready at first. */
  const newDatabase = (notReady: readonly ScriptedResponse[]) => {
    let polls = 0
    return scriptedPlatform(({ host }) =>
      host === 'db.example.com' ? (notReady[polls++] ?? { status: 401 }) : { body: { database } },
    )
  }
  const NEVER_READY = Array.from({ length: 100 }, () => ({ status: 404 }))
  const newOne = { name: 'db', group: 'default' }
  const countProbes = (received: readonly PlatformRequest[]): number =>
    received.filter(({ host, url }) => `${host}${url}` === 'db.example.com/v2/pipeline').length

  test('keeps waiting after 404, failures and no response', async () => {
    const { platform, received } = newDatabase([{ status: 404 }, { status: 502 }, { drop: true }])
    const created = await platform.databases.create({ name: 'db', group: 'default' }, { wait: true })
    expect(created).toMatchObject({ name: 'db' })
    expect([received.length, countProbes(received)]).toEqual([5, 4])
    // the platform token is not sent to the database
    for (const { host, headers } of received)
      expect('authorization' in headers).toBe(host !== 'db.example.com')
  })

  test('rejects after its timeout, and when it is aborted', async () => {
    const { platform } = newDatabase(NEVER_READY)
    const timedOutWait = platform.databases.waitUntilReady('db', { timeoutMs: 150 })
    await expect(timedOutWait).rejects.toThrow(/is not ready after 150 ms: HTTP 404/)
    await expect(timedOutWait).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
    const hanging = newDatabase([{ hang: true }]).platform.databases
    await expect(hanging.waitUntilReady('db', { timeoutMs: 50 })).rejects.toThrow('no response')
    const stop = new AbortController()
    const wait = platform.databases.waitUntilReady('db', { signal: stop.signal })
    setTimeout(() => stop.abort('why'), 30)
    await expect(wait).rejects.toMatchObject({ name: 'PlatformError', code: 'ABORTED', cause: 'why' })
    await expect(platform.databases.waitUntilReady('db', { retry: 1 } as never)).rejects.toThrow('retry')
  })

  test('sends the token if there is one', async () => {
    const { platform, received } = newDatabase([{ status: 404 }, { status: 200 }])
    const created = await platform.databases.get('db')
    await platform.databases.waitUntilReady(created, { authToken: async () => 'database-token' })
    const tokens = received.slice(1).map(({ headers }) => headers['authorization'])
    expect(tokens).toEqual(['Bearer database-token', 'Bearer database-token'])
  })

  test('its error contains no token, and no earlier failure', async () => {
    const token = 'database-token'
    const showsRequest = async (url: string, init: { headers: unknown }): Promise<never> => {
      throw Object.assign(new Error(`cannot send ${JSON.stringify(init.headers)}`), { url, init })
    }
    const failing = createPlatformClient({
      token: 'platform-token',
      organization: 'acme',
      fetch: showsRequest,
    })
    const created = { ...database, name: 'db', dbId: 'id', hostname: 'db.example.com', raw: {} }
    const wait = failing.databases.waitUntilReady(created, { authToken: token, timeoutMs: 50 })
    const error = await wait.catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'TIMEOUT' })
    expect(inspect(error, { depth: 9 })).toMatch(/no response: cannot send .*\[token\]/)
    expect(inspect(error, { depth: 9 })).not.toContain(token)
    const { platform } = newDatabase([{ drop: true }, ...NEVER_READY])
    const laterWait = platform.databases.waitUntilReady(created, { timeoutMs: 150 })
    await expect(laterWait).rejects.toSatisfy((timeout) => !('cause' in timeout))
  })

  test.each([
    ['create', (platform: PlatformClient, wait: object) => platform.databases.create(newOne, { wait })],
    ['ensure', (platform: PlatformClient, wait: object) => platform.databases.ensure(newOne, { wait })],
  ])('%s() creates nothing if the options of the wait are invalid', async (_, call) => {
    const { platform, received } = scriptedPlatform(({ method }) => (method === 'GET' ? notFound : {}))
    await expect(call(platform, { retry: 1 })).rejects.toThrow(TypeError)
    expect(received).toEqual([])
  })

  test('the outcome of a call that has written is unknown if a later step fails', async () => {
    let isCreated = false
    const { platform } = scriptedPlatform(({ host, method, url }) => {
      if (host === 'db.example.com' || url.endsWith('/wait')) return { status: 404 }
      if (method === 'GET') return isCreated ? { status: 403 } : notFound
      isCreated = true
      return { body: { database, group: { name: 'g' } } }
    })
    const waitingCreation = platform.databases.create(newOne, { wait: { timeoutMs: 50 } })
    await expect(waitingCreation).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
    const addition = platform.groups.addLocation('g', 'ams', { wait: true })
    await expect(addition).rejects.toMatchObject({ status: 404, outcome: 'unknown' })
    isCreated = false
    await expect(platform.databases.ensure(newOne)).rejects.toMatchObject({ status: 403, outcome: 'unknown' })
  })

  test('an invalid token or hostname is rejected at once', async () => {
    const { platform, received } = newDatabase([])
    const created = await platform.databases.get('db')
    for (const authToken of ['a\nb', 'tök€n', '', 'line\n', async () => 'a\nb']) {
      const failure = await platform.databases.waitUntilReady(created, { authToken }).catch((error) => error)
      expect(failure).toBeInstanceOf(TypeError)
      expect(failure.message).toMatch(/^authToken (?!.*(?:a\nb|tök))/)
    }
    for (const hostname of [undefined, null, '', 'a b', 'a:b', 'https://a', 'a?b', 'u@a', 5]) {
      expect(() => databaseUrl(hostname as never)).toThrow(new TypeError('the hostname is invalid'))
      const wait = platform.databases.waitUntilReady({ ...created, hostname } as never)
      await expect(wait).rejects.toThrow('hostname is invalid')
    }
    expect(countProbes(received)).toBe(0)
  })

  test('the signal of the call also ends the wait, unless the wait has its own', async () => {
    for (const wait of [true, { signal: undefined }, 'own'] as const) {
      const { platform } = newDatabase(NEVER_READY)
      const stop = new AbortController()
      const options =
        wait === 'own'
          ? { signal: new AbortController().signal, wait: { signal: stop.signal } }
          : { signal: stop.signal, wait }
      const creation = platform.databases.create({ name: 'db', group: 'default' }, options)
      setTimeout(() => stop.abort('why'), 30)
      await expect(creation).rejects.toMatchObject({ code: 'ABORTED', cause: 'why' })
    }
  })

  test('ensure waits for a new database, even if the response to its creation was lost', async () => {
    let isCreated = false
    for (const [response, isNew] of [
      [{ body: { database } }, true],
      [{ drop: true }, true],
      [alreadyExists, false],
    ] as const) {
      isCreated = false
      const { platform, received } = scriptedPlatform(({ host, method }) => {
        if (host === 'db.example.com') return { status: 200 }
        if (method === 'GET') return isCreated ? { body: { database } } : notFound
        isCreated = true
        return response
      })
      for (const created of [isNew, false]) {
        const ensured = platform.databases.ensure({ name: 'db', group: 'default' }, { wait: true })
        expect(await ensured).toMatchObject({ created })
        expect(countProbes(received)).toBe(1)
      }
    }
  })

  test('addLocation can wait for the new location', async () => {
    const { platform, received } = scriptedPlatform({ body: { group: { name: 'g' } } })
    expect(await platform.groups.addLocation('g', 'ams', { wait: true })).toMatchObject({ name: 'g' })
    expect(received.map(({ method, url }) => `${method} ${url.split('/groups/')[1]}`)).toEqual([
      'POST g/locations/ams',
      'GET g/locations/ams/wait',
    ])
  })

  test.each([
    ['db-acme.turso.example', 'https://db-acme.turso.example'],
    ['127.0.0.1:8080/db', 'http://127.0.0.1:8080/db/'],
    ['db.example/a/b/', 'https://db.example/a/b/'],
    ['localhost:8080', 'http://localhost:8080'],
    ['db-acme.localhost:8080', 'http://db-acme.localhost:8080'],
    ['localhost.example', 'https://localhost.example'],
    ['127.0.0.1.example', 'https://127.0.0.1.example'],
  ])('databaseUrl() uses http on this machine, and https elsewhere: %s', (hostname, url) => {
    expect(databaseUrl(hostname)).toBe(url)
  })
})

describe('databaseToken', () => {
  beforeEach(() => void vi.useFakeTimers())

  /** A service that creates tokens with the given lifetime, unless `fail` returns true. */
  const tokenService = (lifetimeSeconds: number | null, fail: () => boolean = () => false) => {
    let count = 0
    return scriptedPlatform(() => {
      if (fail()) return { status: 403, body: { error: 'no' } }
      const exp = lifetimeSeconds === null ? {} : { exp: 1_000 + lifetimeSeconds }
      return { body: { jwt: unsignedJwt({ a: 'rw', iat: 1_000, ...exp, n: (count += 1) }) } }
    })
  }
  const getTokenNumber = (token: string): unknown =>
    (JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString()) as { n: number }).n
  test('creates one token for all simultaneous calls, with the requested permissions', async () => {
    const { platform, received } = tokenService(3_600)
    const token = platform.databaseToken({ database: 'db', expiration: '1h', authorization: 'read-only' })
    const tokens = await Promise.all([token(), token(), token()])
    expect(new Set(tokens).size).toBe(1)
    expect(await token()).toBe(tokens[0])
    expect(received.map(({ url }) => url)).toEqual([
      '/v1/organizations/acme/databases/db/auth/tokens?expiration=1h&authorization=read-only',
    ])
  })

  test('later changes of its options do not change the permissions of its tokens', async () => {
    const { platform, received } = tokenService(3_600)
    const readAttach = ['public']
    const permissions = [{ tables: ['note'], actions: ['data_read' as const] }]
    const token = platform.databaseToken({ database: 'db', expiration: '1h', readAttach, permissions })
    readAttach.push('secret')
    permissions[0]?.tables.push('secret')
    await token()
    expect(received[0]?.body).toContain('public')
    expect(received[0]?.body).not.toContain('secret')
  })

  test('creates tokens for a group', async () => {
    const { platform, received } = tokenService(60)
    await platform.databaseToken({ group: 'g', expiration: '1m' })()
    expect(received[0]?.url).toMatch('/groups/g/auth/tokens?expiration=1m')
  })

  test('renews a token before it expires, and uses the old one until then', async () => {
    const { platform, received } = tokenService(100)
    const token = platform.databaseToken({ database: 'db', expiration: '2h' })
    expect(getTokenNumber(await token())).toBe(1)
    await vi.advanceTimersByTimeAsync(74_000)
    expect(getTokenNumber(await token())).toBe(1)
    expect(received).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(2_000)
    expect([getTokenNumber(await token()), getTokenNumber(await token())]).toEqual([1, 1])
    await vi.advanceTimersByTimeAsync(0)
    expect(received).toHaveLength(2)
    expect(getTokenNumber(await token())).toBe(2)
    // there was no call until it had expired, so the next call waits
    await vi.advanceTimersByTimeAsync(96_000)
    expect(getTokenNumber(await token())).toBe(3)
    expect(received).toHaveLength(3)
  })

  test('a token without an expiry is used for the requested time', async () => {
    const { platform, received } = tokenService(null)
    const token = platform.databaseToken({ database: 'db', expiration: '1d12h' })
    await token()
    await vi.advanceTimersByTimeAsync(26 * 3_600_000)
    await token()
    expect(received).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(10 * 3_600_000)
    expect(getTokenNumber(await token())).toBe(2)
  })

  test('a failed renewal is reported once the old token has expired, and is not retried at once', async () => {
    let fails = false
    const { platform, received } = tokenService(100, () => fails)
    const token = platform.databaseToken({ database: 'db', expiration: '100s' })
    await token()
    fails = true
    await vi.advanceTimersByTimeAsync(80_000)
    expect(getTokenNumber(await token())).toBe(1)
    await vi.advanceTimersByTimeAsync(0)
    expect(received).toHaveLength(2)
    expect(getTokenNumber(await token())).toBe(1)
    expect(received).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(1_500)
    await token()
    await vi.advanceTimersByTimeAsync(0)
    expect(received).toHaveLength(3)
    await vi.advanceTimersByTimeAsync(15_000)
    await expect(token()).rejects.toThrow('HTTP 403')
    fails = false
    expect(getTokenNumber(await token())).toBe(2)
  })

  test('no call gets a token that forget() has discarded, not even one that is waiting for it', async () => {
    const { platform } = tokenService(3_600)
    const token = platform.databaseToken({ database: 'db', expiration: '1h' })
    const calls = [token()]
    token.forget()
    calls.push(token())
    expect((await Promise.all(calls)).map(getTokenNumber)).toEqual([2, 2])
    expect(getTokenNumber(await token())).toBe(2)
  })

  test('no call gets the error of a request that forget() has discarded', async () => {
    let requests = 0
    const { platform } = tokenService(3_600, () => ++requests !== 2)
    const token = platform.databaseToken({ database: 'db', expiration: '1h' })
    const call = token()
    token.forget()
    expect(getTokenNumber(await call)).toBe(1)
    token.forget()
    await expect(token()).rejects.toThrow('HTTP 403')
    expect(requests).toBe(3)
  })

  test.each(['', '1', 'h', 'never', '1y', '0m', '1h ', '-1h'])(
    'rejects the invalid duration %j',
    async (expiration) => {
      const { platform } = tokenService(1)
      const call = () => platform.databaseToken({ database: 'db', expiration })
      expect(call).toThrow('expiration must be a duration')
    },
  )

  test('requires either a database or a group', async () => {
    const { platform } = tokenService(1)
    expect(() => platform.databaseToken({ expiration: '1h' } as never)).toThrow('either database or group')
    const both = { expiration: '1h', database: 'a', group: 'b' } as never
    expect(() => platform.databaseToken(both)).toThrow('either')
    expect(() => platform.databaseToken({ ttl: '1h', database: 'a' } as never)).toThrow('ttl')
  })
})

test.each([
  ['without arguments', []],
  ['with null', [null]],
  ['with a name and null', ['a', null]],
  ['with two names and null', ['a', 'b', null]],
])('no method throws synchronously or sends an incomplete request %s', async (_, args) => {
  const { platform } = scriptedPlatform({ status: 404 }, { maxRetries: 0 })
  const methods = listMethods(platform)
  expect(methods.length).toBeGreaterThan(50)
  for (const [name, method] of methods) {
    const result = method(...args) as PromiseLike<unknown> & AsyncIterable<unknown>
    const outcome = Symbol.asyncIterator in result ? result[Symbol.asyncIterator]().next() : result
    const error: unknown = await Promise.resolve(outcome).catch((reason: unknown) => reason)
    if (error instanceof TypeError)
      expect(error.message, name).toMatch(
        /^[\w.]+ must be |^expected options |^an invite needs |path parameter/,
      )
    else expect(error, name).toMatchObject({ status: 404 })
  }
})

test.each([
  ['a Map', new Map()],
  ['a Date', new Date()],
  ['an array', []],
])('every method rejects %s, whose content would be lost, before it sends anything', async (_, value) => {
  const { platform, received } = scriptedPlatform({ status: 404 }, { maxRetries: 0 })
  for (const [name, method] of listMethods(platform)) {
    const result = method(value) as PromiseLike<unknown> & AsyncIterable<unknown>
    const outcome = Symbol.asyncIterator in result ? result[Symbol.asyncIterator]().next() : result
    await expect(Promise.resolve(outcome), name).rejects.toThrow(TypeError)
  }
  for (const [call, message] of [
    [
      () => platform.databases.create({ name: 'a', group: 'b', seed: value } as never),
      'seed must be a plain object',
    ],
    [
      () => platform.databases.create({ name: 'a', group: 'b' }, { wait: value } as never),
      'wait must be a boolean, or',
    ],
    [
      () => platform.databases.updateConfiguration('a', { allowedIps: { value } } as never),
      'allowedIps must',
    ],
    [() => platform.databases.createToken('a', { permissions: { value } } as never), 'permissions must be'],
    [() => platform.groups.create({ name: 'a', location: 'b', extensions: { value } } as never), "'all', or"],
    [() => platform.request('GET', '/v1', { query: { value } as never }), 'query.value must be a string'],
    [() => platform.databases.ensure({ name: 'a', group: 'b' }, value as never), 'expected options { signal'],
    [() => platform.groups.ensure({ name: 'a', location: 'b' }, value as never), 'expected options { signal'],
  ] as const)
    await expect(call()).rejects.toThrow(message)
  expect(received).toEqual([])
})

test('finding the host of a database to wait for has a time limit', async () => {
  const { platform } = scriptedPlatform({ hang: true }, { maxRetries: 0 })
  const wait = platform.databases.waitUntilReady('db', { timeoutMs: 50 })
  await expect(wait).rejects.toMatchObject({ code: 'TIMEOUT' })
})

test('an invalid date, and an invalid option of a wait that is not needed, are TypeErrors', async () => {
  const { platform, received } = scriptedPlatform({ body: { database } })
  const seed = { type: 'database', name: 'a', timestamp: new Date(Number.NaN) } as const
  await expect(platform.databases.create({ name: 'db', group: 'g', seed })).rejects.toThrow(
    new TypeError('timestamp is an invalid date'),
  )
  const options = { wait: 'yes' as never }
  await expect(platform.databases.ensure({ name: 'db', group: 'default' }, options)).rejects.toThrow(
    TypeError,
  )
  expect(received).toEqual([])
})

test('a field of the service named raw is only in the original object', async () => {
  const { platform } = scriptedPlatform({ body: { database: { ...database, raw: 1 } } })
  const result = await platform.databases.get('db')
  expect(Object.keys(result)).not.toContain('raw')
  expect(result.raw).toMatchObject({ Name: 'db', raw: 1 })
})
