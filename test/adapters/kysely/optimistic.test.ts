import { batch, ConflictError, optimistic, SqlError } from '@batonsql/kysely-dialect'
import { CamelCasePlugin, type Generated, type Kysely, sql, type UpdateResult } from 'kysely'
import { beforeEach, expect, expectTypeOf, test } from 'vitest'
import { createOtherKysely, openKysely } from './open-kysely.ts'

interface Tables {
  wallet: { id: number; ownedCents: number }
  purchase: { id: Generated<number>; cents: number }
}

const { db, log, countRequestsOf } = await openKysely<Tables>(
  [
    'create table wallet (id integer primary key, owned_cents integer)',
    'create table purchase (id integer primary key, cents integer)',
  ],
  { plugins: [new CamelCasePlugin()] },
)
beforeEach(async () => {
  await db.deleteFrom('wallet').execute()
  await db.deleteFrom('purchase').execute()
  await db.insertInto('wallet').values({ id: 1, ownedCents: 1000 }).execute()
  log.length = 0
})

const readCents = async (): Promise<number> =>
  (await db.selectFrom('wallet').select('ownedCents').executeTakeFirstOrThrow()).ownedCents
const buy = (
  cents: number,
  disturb: (attempt: number) => Promise<unknown> = async () => {},
  options = {},
) => {
  let attempt = 0
  return optimistic(
    db,
    async (tx) => {
      const wallet = await tx.selectFrom('wallet').selectAll().where('id', '=', 1).executeTakeFirstOrThrow()
      await disturb((attempt += 1))
      if (wallet.ownedCents < cents) throw new Error('not enough')
      return [
        tx
          .updateTable('wallet')
          .set({ ownedCents: wallet.ownedCents - cents })
          .where('id', '=', 1),
        tx.insertInto('purchase').values({ cents }).returning('id'),
      ]
    },
    options,
  )
}
const spend = () =>
  db
    .updateTable('wallet')
    .set((eb) => ({ ownedCents: eb('ownedCents', '-', 600) }))
    .execute()

test('takes two requests, with the plugins of the instance, and returns typed results', async () => {
  const requests = await countRequestsOf(async () => {
    const [updates, [purchase]] = await buy(500)
    expectTypeOf(updates).toEqualTypeOf<UpdateResult[]>()
    expectTypeOf(purchase).toEqualTypeOf<{ id: number } | undefined>()
    expect(updates[0]?.numUpdatedRows).toBe(1n)
    expect(purchase).toEqual({ id: 1 })
  })
  expect(requests).toBe(2)
  expect(await readCents()).toBe(500)
  expect(log[0]).toBe('select * from "wallet" where "id" = ?')
})

test('a conflict runs the callback again, with what has changed', async () => {
  const buying = buy(500, async (attempt) => attempt === 1 && (await spend()))
  await expect(buying).rejects.toThrow('not enough')
  expect(await readCents()).toBe(400)
  const conflicting = buy(0, spend, { maxConflicts: 0, fallback: 'none' })
  await expect(conflicting).rejects.toBeInstanceOf(ConflictError)
})

test('reads that are issued together share a request', async () => {
  const requests = await countRequestsOf(() =>
    optimistic(db, async (tx) => {
      const reads = [1, 2, 3].map((id) => tx.selectFrom('wallet').selectAll().where('id', '=', id).execute())
      expect((await Promise.all(reads)).map(({ length }) => length)).toEqual([1, 0, 0])
      return [tx.deleteFrom('wallet')]
    }),
  )
  expect(requests).toBe(2)
})

test('a batch in the callback is reads', async () => {
  let attempts = 0
  await optimistic(db, async (tx) => {
    attempts += 1
    const [[wallet], purchases] = await batch(tx, [
      tx.selectFrom('wallet').selectAll(),
      tx.selectFrom('purchase').selectAll(),
    ])
    expect(await tx.selectFrom('wallet').selectAll().execute()).toEqual([wallet])
    if (attempts === 1) await spend()
    return [tx.updateTable('wallet').set({ ownedCents: (wallet?.ownedCents ?? 0) - 100 + purchases.length })]
  })
  expect([attempts, await readCents()]).toEqual([2, 300])
})

test('a batch that the callback does not await cannot become its writes', async () => {
  let stray: Promise<unknown> | undefined
  const requests = await countRequestsOf(async () => {
    await optimistic(db, (tx) => {
      stray = batch(tx, [tx.updateTable('wallet').set({ ownedCents: 0 })])
      stray.catch(() => {})
      return [tx.insertInto('purchase').values({ cents: 5 })]
    })
  })
  await expect(stray).rejects.toThrow()
  expect([requests, await readCents()]).toEqual([1, 1000])
})

test('ends with the signal, while it reads and before it writes', async () => {
  const reason = new Error('enough')
  for (const aborts of ['before reading', 'after reading']) {
    const controller = new AbortController()
    const run = optimistic(
      db,
      async (tx) => {
        if (aborts === 'before reading') controller.abort(reason)
        await tx.selectFrom('wallet').selectAll().execute()
        controller.abort(reason)
        return [tx.deleteFrom('wallet')]
      },
      { signal: controller.signal },
    )
    await expect(run).rejects.toBe(reason)
  }
  expect(await readCents()).toBe(1000)
})

test('queries of the instance itself, raw SQL and compiled queries can be returned', async () => {
  const compiled = db.selectFrom('purchase').selectAll().compile()
  const [inserted, { rows }, selected] = await optimistic(db, () => [
    db.insertInto('purchase').values({ cents: 5 }).returning('cents'),
    sql<{ n: number }>`select count(*) as n from purchase`,
    compiled,
  ])
  expect([inserted, rows, selected.rows.length]).toEqual([[{ cents: 5 }], [{ n: 1 }], 1])
  expect(await optimistic(db, () => [])).toEqual([])
})

test('the position of an error counts the writes', async () => {
  const failing = optimistic(db, async (tx) => {
    await tx.selectFrom('wallet').selectAll().execute()
    return [
      tx.insertInto('purchase').values({ id: 1, cents: 1 }),
      tx.insertInto('wallet').values({ id: 1, ownedCents: 1 }),
    ]
  })
  const error = await failing.catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(SqlError)
  expect(error).toMatchObject({ statementIndex: 1, outcome: 'not_applied' })
  expect(await db.selectFrom('purchase').selectAll().execute()).toEqual([])
})

test('works on the single connection of db.connection()', async () => {
  await db.connection().execute(async (single) => {
    await optimistic(single, async (tx) => {
      const { ownedCents } = await tx.selectFrom('wallet').selectAll().executeTakeFirstOrThrow()
      return [tx.updateTable('wallet').set({ ownedCents: ownedCents + 1 })]
    })
    // the connection is an ordinary one again
    await single.updateTable('wallet').set({ ownedCents: 5 }).execute()
  })
  expect(await readCents()).toBe(5)
})

const rejected: Record<string, (tx: Kysely<Tables>) => Promise<unknown>> = {
  'executing a write': (tx) => tx.deleteFrom('wallet').execute(),
  'a batch with a write': (tx) => batch(tx, [tx.selectFrom('wallet').selectAll(), tx.deleteFrom('wallet')]),
  'raw BEGIN': (tx) => sql`begin`.execute(tx),
  'a pragma': (tx) => sql`pragma user_version = 3`.execute(tx),
  'a transaction': (tx) => tx.transaction().execute(async () => {}),
  'an optimistic transaction in another': (tx) => optimistic(tx, () => []),
  async 'streaming rows'(tx) {
    for await (const _ of tx.selectFrom('wallet').selectAll().stream()) expect.unreachable()
  },
}
test.each(Object.entries(rejected))('rejects %s, before anything is sent', async (_, use) => {
  const requests = await countRequestsOf(async () => {
    const failing = optimistic(db, async (tx) => {
      await use(tx)
      return []
    })
    await expect(failing).rejects.toBeInstanceOf(TypeError)
  })
  expect(requests).toBe(0)
  expect(await readCents()).toBe(1000)
})

test('rejects a transaction, another dialect, and a callback that returns no array', async () => {
  for (const other of [createOtherKysely(), undefined, null, {}, 'db'])
    await expect(optimistic(other as typeof db, () => [])).rejects.toThrow('made with BatonDialect')
  const inTransaction = db.transaction().execute(async (trx) => {
    await trx.selectFrom('wallet').selectAll().execute()
    return await optimistic(trx, () => [])
  })
  await expect(inTransaction).rejects.toThrow('without a transaction')
  const withoutArray = optimistic(db, (() => db.deleteFrom('wallet')) as never)
  await expect(withoutArray).rejects.toThrow('the callback must return an array of queries')
  expect(await readCents()).toBe(1000)
})
