import { createClient } from '@batonsql/core'
import { useDatabase } from '@batonsql/local-server/testing'
import { beforeEach, expect, test, vi } from 'vitest'

/** The example's module as Next.js loads it. Its imports are written for Next.js, so it is type-checked separately. */
interface RouteModule {
  readonly dynamic: string
  readonly runtime: string
  GET(): Promise<Response>
  POST(request: Request): Promise<Response>
}
const folder = new URL('../../../examples/nextjs-route-handler/', import.meta.url)
const importRoute = async (): Promise<RouteModule> =>
  await import(new URL('app/api/guests/route.ts', folder).href)

const database = useDatabase({
  template: async (config) => {
    const db = createClient(config)
    await db.execute('create table guest (id integer primary key, name text not null unique)')
    await db.close()
  },
})

/** Returns a `fetch` that returns the same response to the same request, as Next.js’s `fetch` may do. */
const createCachingFetch = (): typeof fetch => {
  const responses = new Map<string, Promise<Response>>()
  const originalFetch = globalThis.fetch
  return async (input, init) => {
    const key = JSON.stringify([input, init?.body])
    const cached = (init?.cache === 'no-store' ? undefined : responses.get(key)) ?? originalFetch(input, init)
    responses.set(key, cached)
    return (await cached).clone()
  }
}

beforeEach(() => {
  vi.stubEnv('DATABASE_URL', database.config.url)
  vi.stubEnv('DATABASE_TOKEN', database.config.authToken)
  vi.stubGlobal('fetch', createCachingFetch())
})

test('can be loaded without DATABASE_URL, as in `next build`; a request then reports what is missing', async () => {
  vi.stubEnv('DATABASE_URL', undefined)
  const { GET } = await importRoute()
  await expect(GET()).rejects.toThrow(/url/)
})

test('a GET returns a row added after the previous GET', async () => {
  const { GET, POST, dynamic, runtime } = await importRoute()
  const { database: openDatabase } = await import('../../../examples/nextjs-route-handler/database.ts')
  const add = (name: string): Promise<Response> =>
    POST(new Request('http://app/api/guests', { method: 'POST', body: JSON.stringify({ name }) }))
  expect([dynamic, runtime]).toEqual(['force-dynamic', 'nodejs'])
  expect(await (await GET()).json()).toEqual([])
  expect((await add('Ada')).status).toBe(201)
  expect(await (await GET()).json()).toEqual([{ id: 1, name: 'Ada' }])
  expect((await add('Ada')).status).toBe(409)
  await openDatabase().$client.close()
})

/** Returns the counts of two identical queries, with a row added between them. */
async function countTwice(ownFetch: typeof fetch): Promise<unknown[]> {
  // without the replication index, which would make each request different
  const db = createClient({ ...database.config, fetch: ownFetch, readYourWrites: false })
  const direct = createClient(database.config)
  const counts: unknown[] = []
  for (const name of ['Ada', 'Grace']) {
    const { rows } = await db.execute('select count(*) from guest', [], { rowMode: 'array' })
    counts.push(rows[0]?.[0])
    await direct.execute('insert into guest (name) values (?)', [name])
  }
  await db.close()
  await direct.close()
  return counts
}

test('a query through a caching fetch does not see the new row', async () => {
  expect(await countTwice(fetch)).toEqual([0, 0])
})

test('a query with no-store sees the new row', async () => {
  expect(await countTwice((input, init) => fetch(input, { ...init, cache: 'no-store' }))).toEqual([0, 1])
})
