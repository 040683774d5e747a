import { setImmediate } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { bind, drizzle, type RunResult } from '@batonsql/drizzle-driver'
import { eq, sql, TransactionRollbackError } from 'drizzle-orm'
import { Cache, type MutationOption } from 'drizzle-orm/cache/core'
import { DrizzleQueryError } from 'drizzle-orm/errors'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import { countRequests } from '../../support/fixtures.ts'
import { openTestServer } from '../../support/test-server.ts'

// These tests run on all versions of Drizzle.

const items = sqliteTable('items', { id: integer().primaryKey(), name: text().notNull().unique() })

const database = await (await openTestServer()).createDatabase()
let log: string[] = []
const db = drizzle({
  connection: database.config,
  logger: { logQuery: (query) => void log.push(query) },
  // 1.0 does not show parameters by default
  ...({ paramsInErrors: true } as object),
})
afterAll(() => db.$client.close())

beforeAll(() => db.run(sql`create table items (id integer primary key, name text not null unique)`))
beforeEach(async () => {
  await db.delete(items)
  log = []
})

const selectNames = async (): Promise<string[]> => {
  const rows = await db.select().from(items).orderBy(items.name)
  return rows.map((row) => row.name)
}
const countRequestsOf = (work: () => Promise<unknown>): Promise<number> => countRequests(database, work)

describe('transactions', () => {
  test.each([
    [undefined, 'BEGIN IMMEDIATE'],
    ['immediate', 'BEGIN IMMEDIATE'],
    ['exclusive', 'BEGIN IMMEDIATE'],
    ['deferred', 'BEGIN DEFERRED'],
  ] as const)('behavior %s sends %s', async (behavior, begin) => {
    const bodies: string[] = []
    const recordingDb = drizzle({
      connection: {
        ...database.config,
        fetch: (input, init) => {
          bodies.push(init?.body ?? '')
          return fetch(input, init)
        },
      },
    })
    await recordingDb.transaction(
      (tx) => tx.insert(items).values({ name: begin }),
      behavior ? { behavior } : undefined,
    )
    expect(bodies[0]).toMatch(new RegExp(`"${begin}"`, 'i'))
    expect(await selectNames()).toEqual([begin])
    await recordingDb.$client.close()
  })

  test('rollback() rejects with Drizzle’s error, also that of a nested transaction', async () => {
    const rolledBack = db.transaction(async (tx) => {
      await tx.insert(items).values({ name: 'a' })
      const inner = tx.transaction(async (nested) => {
        await nested.insert(items).values({ name: 'b' })
        nested.rollback()
      })
      await expect(inner).rejects.toBeInstanceOf(TransactionRollbackError)
      expect(await tx.select({ name: items.name }).from(items)).toEqual([{ name: 'a' }])
      tx.rollback()
    })
    await expect(rolledBack).rejects.toBeInstanceOf(TransactionRollbackError)
    expect(await selectNames()).toEqual([])
  })
})

describe('batch', () => {
  test('six queries of different kinds take one request, and each result has its own type', async () => {
    const byName = db
      .select()
      .from(items)
      .where(eq(items.name, sql.placeholder('name')))
      .prepare()
    const count = db.select({ count: sql<number>`count(*)` }).from(items).prepare()
    const requests = await countRequestsOf(async () => {
      const results = await db.batch([
        db.insert(items).values({ id: 1, name: 'a' }),
        db.insert(items).values({ id: 2, name: 'b' }).returning({ id: items.id }),
        db.delete(items).where(eq(items.name, 'a')),
        db.all<{ n: number }>(sql`select count(*) as n from items`),
        bind(byName, { name: 'b' }),
        count,
      ])
      expect(results).toEqual([
        expect.objectContaining({ rowsAffected: 1, lastInsertRowid: 1n }),
        [{ id: 2 }],
        expect.objectContaining({ rowsAffected: 1 }),
        [{ n: 1 }],
        [{ id: 2, name: 'b' }],
        [{ count: 1 }],
      ])
      expectTypeOf(results[1]).toEqualTypeOf<{ id: number }[]>()
      expectTypeOf(results[2]).toEqualTypeOf<RunResult>()
      expectTypeOf(results[3]).toEqualTypeOf<{ n: number }[]>()
      expectTypeOf(results[4]).toEqualTypeOf<{ id: number; name: string }[]>()
      expectTypeOf(results[5]).toEqualTypeOf<{ count: number }[]>()
    })
    expect(requests).toBe(1)
    expect(log).toHaveLength(6)
  })

  test('supports get, values and run with raw SQL', async () => {
    expect(
      await db.batch([
        db.get(sql`select 1 as a`),
        db.get(sql`select 1 as a where 0`),
        db.values(sql`select 1 as a, 2 as a`),
        db.run(sql`select 3 as a`),
      ]),
    ).toEqual([{ a: 1 }, undefined, [[1, 2]], expect.objectContaining({ rows: [{ a: 3 }] })])
  })

  test('accepts arrays of unknown length, and an empty array', async () => {
    const inserted = await db.batch(
      ['a', 'b', 'c'].map((name) => db.insert(items).values({ name }).returning({ name: items.name })),
    )
    expectTypeOf(inserted).toEqualTypeOf<{ name: string }[][]>()
    expect(inserted.flat()).toEqual([{ name: 'a' }, { name: 'b' }, { name: 'c' }])
    expect(await countRequestsOf(() => db.batch([]))).toBe(0)
  })

  test('reports which query is invalid SQL, outside and inside a transaction; the transaction continues', async () => {
    const invalidBatch = (on: Pick<typeof db, 'insert' | 'all' | 'select'>) =>
      [on.insert(items).values({ name: 'lost' }), on.all(sql`selec ${1}`), on.select().from(items)] as const
    const rejection = { query: 'selec ?', params: [1], cause: { statementIndex: 1, code: 'SQL_PARSE_ERROR' } }
    await expect(db.batch(invalidBatch(db))).rejects.toMatchObject(rejection)
    await db.transaction(async (tx) => {
      await tx.insert(items).values({ name: 'kept' })
      await expect(tx.batch(invalidBatch(tx))).rejects.toMatchObject(rejection)
    })
    expect(await selectNames()).toEqual(['kept'])
  })

  test('is atomic, and reports which query failed', async () => {
    const batch = db.batch(['a', 'a', 'b'].map((name) => db.insert(items).values({ name })))
    const error: unknown = await batch.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(DrizzleQueryError)
    expect(error).toMatchObject({
      query: expect.stringContaining('insert') as string,
      params: ['a'],
      cause: { statementIndex: 1, extendedCode: 'SQLITE_CONSTRAINT_UNIQUE' },
    })
    expect(await selectNames()).toEqual([])
  })

  test('rejects items that are not queries, and values that cannot be sent', async () => {
    const requests = await countRequestsOf(async () => {
      const noQuery = db.batch([db.insert(items).values({ name: 'a' }), {} as never])
      await expect(noQuery).rejects.toThrow('query 1 of the batch')
      const noValue = db.batch([db.all(sql`select ${Number.NaN}`)])
      await expect(noValue).rejects.toMatchObject({ cause: { name: 'RangeError' } })
    })
    expect(requests).toBe(0)
  })
})

describe('cache', () => {
  class MemoryCache extends Cache {
    readonly entries = new Map<string, unknown[]>()
    readonly invalidated: unknown[] = []
    strategy(): 'all' {
      return 'all'
    }
    async get(key: string): Promise<unknown[] | undefined> {
      return this.entries.get(key)
    }
    async put(key: string, rows: unknown[]): Promise<void> {
      this.entries.set(key, rows)
    }
    async onMutate({ tables }: MutationOption): Promise<void> {
      // responds later, like a cache on another machine
      await setImmediate()
      this.invalidated.push(tables)
      this.entries.clear()
    }
  }

  /** Opens a database with a cache, and fills the cache with the rows of the table: none. */
  const openCached = async (cache = new MemoryCache(), client = db.$client) => {
    const cachedDb = drizzle({ client, cache })
    const select = async (): Promise<number> => (await cachedDb.select().from(items)).length
    expect([await select(), await countRequestsOf(select)]).toEqual([0, 0])
    return { cache, cachedDb, client, select }
  }

  test('is used only outside transactions, and invalidated after commits and batches', async () => {
    const { cache, cachedDb, select } = await openCached()
    // the same object, as in Drizzle's own drivers
    expect(cachedDb.$cache).toBe(cache)
    expect(cachedDb.$cache).toMatchObject({ get: expect.any(Function), invalidate: expect.any(Function) })
    await cachedDb.insert(items).values({ name: 'a' })
    expect([await select(), await countRequestsOf(select)]).toEqual([1, 0])
    await cachedDb.transaction(async (tx) => {
      await tx.insert(items).values({ name: 'b' })
      expect(await tx.select().from(items)).toHaveLength(2)
      expect(await select()).toBe(1)
    })
    expect(await select()).toBe(2)
    await cachedDb.batch([cachedDb.insert(items).values({ name: 'c' })])
    expect(await select()).toBe(3)
    expect(cache.invalidated).toEqual([['items'], ['items'], ['items']])
    await cachedDb.$cache.invalidate({ tables: 'items' })
    expect(cache.invalidated).toHaveLength(4)
  })

  /** Opens a database whose client loses the response to the next request that contains the given text. */
  async function openLossy(text: string) {
    let hasLostResponse = false
    const client = createClient({
      ...database.config,
      maxRetries: 0,
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (hasLostResponse || !init.body?.includes(text)) return response
        hasLostResponse = true
        await response.text()
        throw new TypeError('the response was lost')
      },
    })
    return await openCached(new MemoryCache(), client)
  }

  test('is invalidated after a COMMIT whose response was lost', async () => {
    const { client, cachedDb, select } = await openLossy('COMMIT')
    const transaction = cachedDb.transaction((tx) => tx.insert(items).values({ name: 'a' }).execute())
    await expect(transaction).rejects.toMatchObject({ outcome: 'unknown' })
    expect(await select()).toBe(1)
    await client.close()
  })

  test('is invalidated after a batch whose response was lost', async () => {
    const { client, cachedDb, select } = await openLossy('"batch"')
    const batch = cachedDb.batch([cachedDb.insert(items).values({ name: 'a' })])
    await expect(batch).rejects.toMatchObject({ cause: { outcome: 'unknown' } })
    expect(await select()).toBe(1)
    await client.close()
  })

  test('is invalidated after a batch that failed but kept its earlier statements, in a transaction that commits', async () => {
    const { cachedDb, select } = await openCached()
    await cachedDb.transaction(async (tx) => {
      const insert = tx.insert(items).values([{ name: 'a' }, { name: 'a' }])
      const batch = tx.batch([tx.insert(items).values({ name: 'b' }), insert])
      await expect(batch).rejects.toMatchObject({ cause: { code: 'SQLITE_CONSTRAINT' } })
    })
    expect(await select()).toBe(1)
  })

  test('is not invalidated after a rollback', async () => {
    const { cache, cachedDb } = await openCached()
    const transaction = cachedDb.transaction(async (tx) => {
      await tx.insert(items).values({ name: 'a' })
      throw new Error('changed my mind')
    })
    await expect(transaction).rejects.toThrow('changed my mind')
    const insert = cachedDb.insert(items).values([{ name: 'a' }, { name: 'a' }])
    await expect(cachedDb.batch([insert])).rejects.toThrow()
    expect(cache.invalidated).toEqual([])
  })

  test('a cache that throws does not make a committed transaction or batch reject', async () => {
    class BrokenCache extends MemoryCache {
      override async onMutate(): Promise<void> {
        throw new Error('no cache server')
      }
    }
    const cachedDb = drizzle({ client: db.$client, cache: new BrokenCache() })
    const value = await cachedDb.transaction(async (tx) => {
      await tx.insert(items).values({ name: 'a' })
      return 'done'
    })
    expect(value).toBe('done')
    await cachedDb.batch([cachedDb.insert(items).values({ name: 'b' })])
    expect(await selectNames()).toEqual(['a', 'b'])
  })
})

test('a read-only batch does not wait for the write lock, unless `behavior` overrides it', async () => {
  await db.transaction(async (tx) => {
    await tx.insert(items).values({ name: 'held' })
    expect(await db.batch([db.select().from(items), db.run(sql`select 1`)])).toMatchObject([[], {}])
  })
  expect(await db.batch([db.select().from(items)], { behavior: 'immediate' })).toMatchObject([
    [{ name: 'held' }],
  ])
  const batch = db.batch([db.select().from(items)], { behavior: 'write' as 'immediate' })
  await expect(batch).rejects.toThrow('behavior must be')
  for (const [options, message] of [
    [{ mode: 'immediate' }, 'unknown option mode; the options are behavior'],
    ['immediate', 'expected options { behavior }, not a value of type string'],
    [null, 'expected options { behavior }, not null'],
  ] as const)
    await expect(db.batch([db.select().from(items)], options as object)).rejects.toThrow(message)
})

test('PRAGMA foreign_keys, which SQLite ignores there, is rejected in a batch', async () => {
  const message = expect.stringContaining('has no effect inside a transaction') as string
  const batch = db.batch([db.run(sql`pragma foreign_keys = off`), db.run(sql`drop table items`)])
  await expect(batch).rejects.toMatchObject({ cause: { name: 'TypeError', message } })
  expect(await selectNames()).toEqual([])
})
