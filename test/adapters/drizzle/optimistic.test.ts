import { ConflictError, drizzle, optimistic, type RunResult } from '@batonsql/drizzle-driver'
import { eq, sql } from 'drizzle-orm'
import { Cache, type MutationOption } from 'drizzle-orm/cache/core'
import { integer, sqliteTable } from 'drizzle-orm/sqlite-core'
import { afterAll, beforeAll, beforeEach, expect, expectTypeOf, test } from 'vitest'
import { countRequests } from '../../support/fixtures.ts'
import { openTestServer } from '../../support/test-server.ts'

// These tests run on all versions of Drizzle.

const wallets = sqliteTable('wallet', { id: integer().primaryKey(), cents: integer().notNull() })
const purchases = sqliteTable('purchase', { id: integer().primaryKey(), cents: integer().notNull() })

/** Counts how it is used, and returns results that are out of date. */
class StaleCache extends Cache {
  reads = 0
  invalidated: string[] = []
  override strategy = () => 'all' as const
  override async get(): Promise<unknown[] | undefined> {
    this.reads += 1
    return [[1, 1_000_000]]
  }
  override async put(): Promise<void> {}
  override async onMutate({ tables }: MutationOption): Promise<void> {
    this.invalidated.push(...([tables].flat() as string[]))
  }
}

const cache = new StaleCache()
const database = await (await openTestServer()).createDatabase()
const db = drizzle({ connection: database.config, cache })
afterAll(() => db.$client.close())

beforeAll(async () => {
  await db.run(sql`create table wallet (id integer primary key, cents integer not null)`)
  await db.run(sql`create table purchase (id integer primary key, cents integer not null)`)
})
beforeEach(async () => {
  await db.run(sql`delete from wallet`)
  await db.run(sql`delete from purchase`)
  await db.run(sql`insert into wallet values (1, 1000)`)
  cache.invalidated = []
})

const readCents = async (): Promise<unknown> =>
  (await db.values<[number]>(sql`select cents from wallet`))[0]?.[0]
const buy = (
  cents: number,
  disturb: (attempt: number) => Promise<unknown> = async () => {},
  options = {},
) => {
  let attempt = 0
  return optimistic(
    db,
    async (tx) => {
      const [wallet] = await tx.select().from(wallets).where(eq(wallets.id, 1))
      await disturb((attempt += 1))
      if (wallet === undefined || wallet.cents < cents) throw new Error('not enough')
      return [
        tx
          .update(wallets)
          .set({ cents: wallet.cents - cents })
          .where(eq(wallets.id, 1)),
        tx.insert(purchases).values({ cents }).returning(),
      ]
    },
    options,
  )
}
const spend = () => db.run(sql`update wallet set cents = cents - 600`)

test('takes two requests, does not use the cache, invalidates it, and returns typed results', async () => {
  const requests = await countRequests(database, async () => {
    const [update, [purchase]] = await buy(400)
    expectTypeOf(update).toEqualTypeOf<RunResult>()
    expectTypeOf(purchase).toEqualTypeOf<{ id: number; cents: number } | undefined>()
    expect(update.rowsAffected).toBe(1)
    expect(purchase).toEqual({ id: 1, cents: 400 })
  })
  expect(requests).toBe(2)
  expect(cache.reads).toBe(0)
  expect(cache.invalidated.toSorted()).toEqual(['purchase', 'wallet'])
  expect(await readCents()).toBe(600)
})

test('a conflict runs the callback again, with what has changed', async () => {
  await expect(buy(500, async (attempt) => attempt === 1 && (await spend()))).rejects.toThrow('not enough')
  expect(await readCents()).toBe(400)
  await expect(buy(0, spend, { maxConflicts: 0, fallback: 'none' })).rejects.toBeInstanceOf(ConflictError)
})

test('after too many conflicts, the callback runs in a transaction', async () => {
  const disturb = async (attempt: number) =>
    attempt === 1 && (await db.run(sql`update wallet set cents = 150`))
  await buy(100, disturb, { maxConflicts: 0 })
  expect(await readCents()).toBe(50)
  expect(cache.invalidated.toSorted()).toEqual(['purchase', 'wallet'])
})

test('reads that are issued together share a request', async () => {
  const requests = await countRequests(database, () =>
    optimistic(db, async (tx) => {
      await Promise.all([1, 2].map((id) => tx.select().from(wallets).where(eq(wallets.id, id))))
      return [tx.delete(wallets)]
    }),
  )
  expect(requests).toBe(2)
})

test('a batch in the callback is reads', async () => {
  let attempts = 0
  await optimistic(db, async (tx) => {
    attempts += 1
    const [[wallet], count] = await tx.batch([tx.select().from(wallets), tx.select().from(purchases)])
    const [again] = await tx.select().from(wallets)
    expect(again).toEqual(wallet)
    if (attempts === 1) await spend()
    return [tx.update(wallets).set({ cents: (wallet?.cents ?? 0) - 100 + count.length })]
  })
  expect([attempts, await readCents()]).toEqual([2, 300])
})

test('a batch that the callback does not await cannot become its writes', async () => {
  let stray: Promise<unknown> | undefined
  await optimistic(db, (tx) => {
    stray = tx.batch([tx.update(wallets).set({ cents: 0 })])
    stray.catch(() => {})
    return [tx.insert(purchases).values({ cents: 5 })]
  })
  await expect(stray).rejects.toThrow()
  expect(await readCents()).toBe(1000)
})

test('the position of an error counts the writes', async () => {
  const error = await optimistic(db, async (tx) => {
    await tx.select().from(wallets)
    return [tx.insert(purchases).values({ id: 1, cents: 1 }), tx.insert(wallets).values({ id: 1, cents: 1 })]
  }).catch((reason: unknown) => reason)
  expect((error as Error).cause).toMatchObject({ statementIndex: 1, outcome: 'not_applied' })
  expect((error as Error).message).toContain('insert into "wallet"')
  expect(await db.values(sql`select * from purchase`)).toEqual([])
})

test('rejects executing a write, a transaction inside it, and being used in a transaction', async () => {
  const failing: ((tx: Parameters<Parameters<typeof db.transaction>[0]>[0]) => unknown)[] = [
    (tx) => tx.delete(wallets),
    (tx) => tx.batch([tx.select().from(wallets), tx.delete(wallets)]),
    (tx) => tx.transaction(async () => {}),
    // an async callback that returns a query awaits it
    async (tx) => tx.insert(wallets).values({ id: 2, cents: 1 }),
  ]
  for (const use of failing) {
    const run = optimistic(db, async (tx) => {
      await use(tx)
      return []
    })
    await expect(run).rejects.toThrow()
  }
  await db.transaction(async (tx) => {
    for (const other of [tx, {}, { $client: db.$client }, 5])
      expect(() => optimistic(other as never, () => [])).toThrow('needs a database')
  })
  await expect(optimistic(db, (async () => 5) as never)).rejects.toThrow('expected an array of queries')
  expect(await db.values(sql`select id, cents from wallet`)).toEqual([[1, 1000]])
})

test("rejects with the signal's reason, while it reads and before it writes", async () => {
  const reason = new Error('enough')
  for (const aborts of ['before reading', 'after reading']) {
    const controller = new AbortController()
    const run = optimistic(
      db,
      async (tx) => {
        if (aborts === 'before reading') controller.abort(reason)
        await tx.select().from(wallets)
        controller.abort(reason)
        return [tx.delete(wallets)]
      },
      { signal: controller.signal },
    )
    await expect(run).rejects.toBe(reason)
  }
  expect(await readCents()).toBe(1000)
})
