import { createClient } from '@batonsql/core'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely, SingleConnectionProvider, sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

interface Database {
  measurement: { id: number; name: string }
}

const server = await openTestServer()
const database = await server.createDatabase()
const client = createClient(database.config)
const db = new Kysely<Database>({ dialect: new BatonDialect({ client }) })
let requestsBefore = 0
const countRequests = (): number => database.requestCount() - requestsBefore
const measurements = db.selectFrom('measurement').selectAll().orderBy('id')

beforeAll(async () => {
  await client.batch([
    'create table measurement (id integer primary key, name text)',
    `insert into measurement with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
     select i, 'm' || i from n`,
  ])
})
afterAll(async () => {
  await db.destroy()
  await client.close()
})

test.each([1, 7, 100, 10_000])('streams every row in chunks of %i, in two requests', async (chunkSize) => {
  requestsBefore = database.requestCount()
  let sum = 0
  for await (const { id, name } of measurements.stream(chunkSize)) {
    expect(name).toBe(`m${id}`)
    sum += id
  }
  expect([sum, countRequests()]).toEqual([12_502_500, 2])
})

test('leaving the loop ends the query and releases the connection', async () => {
  requestsBefore = database.requestCount()
  for await (const { id } of measurements.stream(10)) if (id === 25) break
  expect(countRequests()).toBe(2)
  expect(await db.selectFrom('measurement').select('id').where('id', '=', 1).execute()).toEqual([{ id: 1 }])
})

test('streams inside a transaction, and the transaction continues afterwards', async () => {
  await db.transaction().execute(async (trx) => {
    await trx.insertInto('measurement').values({ id: 6_000, name: 'new' }).execute()
    const ids: number[] = []
    const rows = trx.selectFrom('measurement').select('id').where('id', '>', 4_998).orderBy('id').stream(1)
    for await (const { id } of rows) ids.push(id)
    expect(ids).toEqual([4_999, 5_000, 6_000])
    await trx.deleteFrom('measurement').where('id', '=', 6_000).execute()
  })
})

test('errors are thrown from the loop', async () => {
  const invalidQuery = sql<{ a: number }>`select * from missing`.compile(db)
  const read = (async () => {
    for await (const row of db.getExecutor().stream(invalidQuery, 1)) expect.unreachable(JSON.stringify(row))
  })()
  await expect(read).rejects.toMatchObject({ name: 'SqlError', code: 'SQLITE_UNKNOWN' })
})

describe('a query that waits for the rows of a loop', () => {
  // the server's own time limits are longer
  let withTimeLimit: Kysely<Database>
  beforeEach(() => {
    withTimeLimit = new Kysely({
      dialect: new BatonDialect({ ...database.config, requestTimeoutMs: 1_000 }),
    })
  })
  afterEach(async () => {
    vi.useRealTimers()
    await withTimeLimit.destroy()
  })
  const READERS = [
    ['a transaction', (run: Run) => db.transaction().execute(run)],
    ['a connection', (run: Run) => db.connection().execute(run)],
    [
      'a controlled transaction',
      async (run: Run) => {
        const trx = await db.startTransaction().execute()
        try {
          await run(trx)
        } finally {
          await trx.rollback().execute()
        }
      },
    ],
  ] as const
  type Run = (trx: Kysely<Database>) => Promise<void>
  /** Starts a query that waits until its time limit has passed. */
  const updateTooLate = (trx: Kysely<Database>): Promise<unknown> => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const waiting = trx.updateTable('measurement').set({ name: 'lost' }).execute()
    waiting.catch(() => {})
    vi.advanceTimersByTime(client.requestTimeoutMs)
    vi.useRealTimers()
    return waiting
  }

  test.each(READERS)('is rejected if the loop of %s awaits it, and was not run', async (_, runIn) => {
    const update = async (trx: Kysely<Database>): Promise<void> => {
      for await (const { id } of trx.selectFrom('measurement').select('id').orderBy('id').stream(2)) {
        const waiting = updateTooLate(trx)
        if (id > 1) await waiting
        else await expect(waiting).rejects.toThrow(TypeError)
      }
    }
    await expect(runIn(update)).rejects.toThrow(/waits for a loop over stream.* one query .* at a time/)
    expect(await db.selectFrom('measurement').selectAll().where('name', '=', 'lost').execute()).toEqual([])
  })

  test('is not run after the loop either, if it was rejected', async () => {
    await db.transaction().execute(async (trx) => {
      for await (const _ of trx.selectFrom('measurement').select('id').where('id', '<', 3).stream(1)) {
        const waiting = updateTooLate(trx)
        await expect(waiting).rejects.toThrow(TypeError)
      }
      await trx.selectFrom('measurement').select('id').execute()
    })
    expect(await db.selectFrom('measurement').selectAll().where('name', '=', 'lost').execute()).toEqual([])
  })

  test('is rejected if it was issued while the loop waited for its first row', async () => {
    await withTimeLimit.transaction().execute(async (trx) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      const loop = trx.selectFrom('measurement').select('id').stream(1)[Symbol.asyncIterator]()
      const firstRow = loop.next()
      const waiting = trx.updateTable('measurement').set({ name: 'lost' }).execute()
      const rejection = expect(waiting).rejects.toThrow(/waits for a loop over stream/)
      expect((await firstRow).done).toBe(false)
      vi.advanceTimersByTime(1_000)
      await rejection
      vi.useRealTimers()
      await loop.return?.()
    })
    expect(await db.selectFrom('measurement').selectAll().where('name', '=', 'lost').execute()).toEqual([])
  })

  test('is not limited by its own loop, which ran after another', async () => {
    const rowsOf = (trx: Kysely<Database>) =>
      trx.selectFrom('measurement').select('id').where('id', '<', 3).stream(1)[Symbol.asyncIterator]()
    await withTimeLimit.transaction().execute(async (trx) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      const loops = [rowsOf(trx), rowsOf(trx)] as const
      const firstRows = loops.map((loop) => loop.next())
      await firstRows[0]
      vi.useRealTimers()
      await loops[0].return?.()
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      expect((await firstRows[1])?.value).toEqual({ id: 1 })
      vi.advanceTimersByTime(1_000)
      expect((await loops[1].next()).value).toEqual({ id: 2 })
      vi.useRealTimers()
      await loops[1].return?.()
    })
  })

  test('runs after the loop if it is not awaited there, however long it takes', async () => {
    const names = await withTimeLimit.transaction().execute(async (trx) => {
      const waiting: Promise<{ name: string } | undefined>[] = []
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      for await (const { id } of trx.selectFrom('measurement').select('id').where('id', '<', 4).stream(1)) {
        waiting.push(trx.selectFrom('measurement').select('name').where('id', '=', id).executeTakeFirst())
        vi.advanceTimersByTime(999)
      }
      return await Promise.allSettled(waiting)
    })
    expect(names).toMatchObject(['m1', 'm2', 'm3'].map((name) => ({ value: { name } })))
  })

  test('of another connection is not affected', async () => {
    await db.transaction().execute(async (trx) => {
      for await (const { id } of trx.selectFrom('measurement').select('id').where('id', '<', 3).stream())
        expect(await db.selectFrom('measurement').select('id').where('id', '=', id).execute()).toEqual([
          { id },
        ])
    })
  })

  test('is detected by one replacement of a method of Kysely, however many instances there are', () => {
    const { provideConnection } = SingleConnectionProvider.prototype
    new BatonDialect({ client }).createDriver()
    expect(SingleConnectionProvider.prototype.provideConnection).toBe(provideConnection)
  })
})
