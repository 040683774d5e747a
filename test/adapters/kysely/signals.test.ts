import { BatonDialect } from '@batonsql/kysely-dialect'
import { type AbortableQueryOptions, Kysely, type RawBuilder, sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { openTestServer, type TestDatabase, type TestServer } from '../../support/test-server.ts'
import { waitFor } from '../../support/wait-for.ts'

interface Tables {
  item: { name: string }
}

let server: TestServer
let database: TestDatabase
let db: Kysely<Tables>

// each test has its own database, because an aborted query may hold the write lock for a while
beforeEach(async () => {
  server ??= await openTestServer()
  database = await server.createDatabase()
  db = new Kysely({ dialect: new BatonDialect(database.config) })
  await sql`create table item (name text unique)`.execute(db)
})
afterEach(() => db.destroy())

const insert = (executor: Kysely<Tables>, name: string): Promise<unknown> =>
  executor.insertInto('item').values({ name }).execute()
const selectNames = async (): Promise<string[]> =>
  (await db.selectFrom('item').select('name').orderBy('name').execute()).map(({ name }) => name)
/** Inserts a row, slowly enough to be aborted while it runs. */
const slowInsert = (name: string, steps = 300_000): RawBuilder<unknown> =>
  sql`with recursive n(x) as (select 1 union all select x + 1 from n where x < ${sql.lit(steps)})
    insert into item select ${name} from (select max(x) from n)`
const ENDLESS_STEPS = 100_000_000
const shortTimeout = (): AbortSignal => AbortSignal.timeout(30)

/** Aborts an insert that the server runs. */
async function abortInFlight(
  executor: Kysely<Tables>,
  inflightQueryAbortStrategy: NonNullable<AbortableQueryOptions['inflightQueryAbortStrategy']>,
): Promise<void> {
  const controller = new AbortController()
  const { signal } = controller
  const requestsBefore = database.requestCount()
  const query = slowInsert('b', ENDLESS_STEPS).execute(executor, { signal, inflightQueryAbortStrategy })
  const aborted = expect(query).rejects.toThrow('own error')
  // aborting it before it is sent would not affect the connection
  await expect.poll(() => database.requestCount()).toBe(requestsBefore + 1)
  controller.abort(new Error('own error'))
  await aborted
}

if (inject('kysely') === '0.28') {
  test('Kysely 0.28 has no signals, so a query runs to completion', async () => {
    await slowInsert('a').execute(db, { signal: shortTimeout() })
    expect(await selectNames()).toEqual(['a'])
  })
} else {
  describe('an aborted query', () => {
    test('rejects with the reason, and sends nothing if it was aborted beforehand', async () => {
      const reason = new Error('own error')
      const before = database.requestCount()
      const select = db.selectFrom('item').selectAll()
      await expect(select.execute({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
      expect(database.requestCount()).toBe(before)
    })

    test('is interrupted by the strategy `cancel query`; the next one runs', async () => {
      const options = { signal: shortTimeout(), inflightQueryAbortStrategy: 'cancel query' } as const
      const query = slowInsert('a', ENDLESS_STEPS).execute(db, options)
      await expect(query).rejects.toMatchObject({ name: 'TimeoutError' })
      // the embedded server interrupts a statement by restarting the engine
      await waitFor(() => sql`select 1`.execute(db))
    })

    test.each(['cancel query', 'kill session'] as const)(
      'with the strategy `%s`, its request is aborted',
      async (inflightQueryAbortStrategy) => {
        const signals: (AbortSignal | null | undefined)[] = []
        const dialect = new BatonDialect({
          ...database.config,
          // never responds
          fetch: (_, init) => {
            signals.push(init?.signal)
            return new Promise((_, reject) => {
              init?.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error))
            })
          },
        })
        const observed = new Kysely<Tables>({ dialect })
        const controller = new AbortController()
        const options = { signal: controller.signal, inflightQueryAbortStrategy }
        const query = sql`select 1`.execute(observed, options)
        const aborted = expect(query).rejects.toThrow('own error')
        await expect.poll(() => signals.length).toBe(1)
        expect(signals[0]?.aborted).toBe(false)
        controller.abort(new Error('own error'))
        await aborted
        await expect.poll(() => signals[0]?.aborted).toBe(true)
        await observed.destroy()
      },
    )

    test('does not affect its transaction by default', async () => {
      await db.transaction().execute(async (trx) => {
        await insert(trx, 'a')
        const query = slowInsert('b').execute(trx, { signal: shortTimeout() })
        await expect(query).rejects.toMatchObject({ name: 'TimeoutError' })
        await insert(trx, 'c')
      })
      expect(await selectNames()).toEqual(['a', 'b', 'c'])
    })

    test('ends its connection with the strategy `kill session`', async () => {
      await db.connection().execute(async (connection) => {
        await abortInFlight(connection, 'kill session')
        await expect(insert(connection, 'c')).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
      })
      expect(await waitFor(selectNames)).toEqual([])
    })

    test.each(['cancel query', 'kill session'] as const)(
      'ends its transaction with the strategy `%s`, and nothing is written outside it',
      async (inflightQueryAbortStrategy) => {
        const attempt = db.transaction().execute(async (trx) => {
          await insert(trx, 'a')
          await abortInFlight(trx, inflightQueryAbortStrategy)
          await insert(trx, 'c')
        })
        await expect(attempt).rejects.toMatchObject({ name: 'StreamError' })
        expect(await waitFor(selectNames)).toEqual([])
      },
    )
  })

  describe('an aborted stream', () => {
    const rowsUpTo = (to: number, column: RawBuilder<unknown>): RawBuilder<{ x: number }> =>
      sql`(with recursive n(i) as (select 1 union all select i + 1 from n where i < ${sql.lit(to)}) select ${column} as x from n)`
    const read = async (executor: Kysely<Tables>, from: RawBuilder<{ x: number }>): Promise<number[]> => {
      const controller = new AbortController()
      const requestsBefore = database.requestCount()
      const values: number[] = []
      const rows = executor
        .selectFrom(from.as('n'))
        .select('n.x')
        .stream({ chunkSize: 10, signal: controller.signal })
      const reading = expect(async () => {
        for await (const { x } of rows) {
          values.push(x)
          if (x === 25) controller.abort(new Error('own error'))
        }
      }).rejects.toThrow('own error')
      if (from === neverReadyRows) {
        // aborting it before it is sent would not affect the transaction, in which the statement is first parsed by another request
        const requests = executor.isTransaction ? 2 : 1
        await waitFor(() => expect(database.requestCount()).toBe(requestsBefore + requests))
        controller.abort(new Error('own error'))
      }
      await reading
      return values
    }
    const readyRows = (to: number): RawBuilder<{ x: number }> => rowsUpTo(to, sql`i`)
    const neverReadyRows = rowsUpTo(ENDLESS_STEPS, sql`max(i)`)

    test.each([
      ['between two rows', readyRows(1_000_000)],
      ['while it waits for a row', neverReadyRows],
    ])('%s logs no error, and the next query runs', async (_, rows) => {
      const consoleError = vi.spyOn(console, 'error').mockImplementation(() => {})
      try {
        expect((await read(db, rows)).length).toBeLessThan(100)
        await waitFor(() => insert(db, 'a'))
        expect(consoleError).not.toHaveBeenCalled()
      } finally {
        consoleError.mockRestore()
      }
    })

    test('between two rows does not affect its transaction', async () => {
      await db.transaction().execute(async (trx) => {
        await insert(trx, 'a')
        // the rest of the chunk is still delivered
        expect(await read(trx, readyRows(1_000))).toHaveLength(30)
        await insert(trx, 'b')
      })
      expect(await selectNames()).toEqual(['a', 'b'])
    })

    test('while it waits for a row ends its transaction, and nothing is written outside it', async () => {
      const attempt = db.transaction().execute(async (trx) => {
        await insert(trx, 'a')
        expect(await read(trx, neverReadyRows)).toEqual([])
        await insert(trx, 'b')
      })
      await expect(attempt).rejects.toMatchObject({ name: 'StreamError' })
      expect(await waitFor(selectNames)).toEqual([])
    })
  })
}
