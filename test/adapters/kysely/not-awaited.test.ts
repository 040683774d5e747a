import { batch } from '@batonsql/kysely-dialect'
import { type ControlledTransaction, type Generated, type Kysely, sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../support/wait-for.ts'
import { openKysely } from './open-kysely.ts'

// Queries of a transaction that are not awaited, and are still in Kysely's own queue when the transaction ends.

interface Tables {
  item: { id: Generated<number>; name: string }
}

const { db } = await openKysely<Tables>([])
beforeEach(async () => {
  await sql`drop table if exists item`.execute(db)
  await sql`create table item (id integer primary key, name text not null)`.execute(db)
})

const ownError = new Error('own error')
const readAll = async (stream: AsyncIterable<unknown>, limit = Infinity): Promise<void> => {
  let count = 0
  for await (const _ of stream) if (++count === limit) break
}
const insertItem = (trx: Kysely<Tables>, name: string) => trx.insertInto('item').values({ name })
const readNames = async (): Promise<string[]> =>
  (await db.selectFrom('item').select('name').execute()).map(({ name }) => name)
const rollBackOnConflict = sql`insert or rollback into item (name) values ('one')`

/** Operations of a transaction that delay the operations after them. */
const FIRST_OPERATIONS = {
  'a stream of a SELECT': (trx: Kysely<Tables>) => readAll(trx.selectFrom('item').selectAll().stream()),
  'a stream of an INSERT': (trx: Kysely<Tables>) => readAll(insertItem(trx, 'first').returningAll().stream()),
  'a stream that is left early': (trx: Kysely<Tables>) =>
    readAll(trx.selectNoFrom(sql`1`.as('a')).stream(), 1),
  'an insert': (trx: Kysely<Tables>) => insertItem(trx, 'first').execute(),
  nothing: async () => {},
}

const SECOND_OPERATIONS = {
  'an insert': (trx: Kysely<Tables>) => insertItem(trx, 'second').execute(),
  'a batch': (trx: Kysely<Tables>) => batch(trx, [insertItem(trx, 'second'), insertItem(trx, 'second')]),
  'a stream of an INSERT': (trx: Kysely<Tables>) =>
    readAll(insertItem(trx, 'second').returningAll().stream()),
}

type Callback = (trx: Kysely<Tables>) => Promise<void>

const runControlled = async (executor: Kysely<Tables>, body: Callback): Promise<void> => {
  const trx: ControlledTransaction<Tables> = await executor.startTransaction().execute()
  try {
    await body(trx)
    await trx.commit().execute()
  } catch (error) {
    await trx.rollback().execute()
    throw error
  }
}

const runAndReuse = async (connection: Kysely<Tables>, body: Callback): Promise<void> => {
  try {
    await connection.transaction().execute(body)
  } finally {
    // the connection is still usable
    await insertItem(connection, 'after').execute()
    await connection.transaction().execute((trx) => insertItem(trx, 'after').execute())
  }
}

const TRANSACTION_KINDS: Record<string, (body: Callback) => Promise<void>> = {
  'a transaction': (body) => db.transaction().execute(body),
  'a controlled transaction': (body) => runControlled(db, body),
  'a transaction of a connection': (body) =>
    db.connection().execute((connection) => runAndReuse(connection, body)),
  'a transaction of a connection with settings': (body) =>
    db.connection().execute(async (connection) => {
      await sql`pragma foreign_keys = off`.execute(connection)
      await runAndReuse(connection, body)
    }),
}

const programs = Object.entries(TRANSACTION_KINDS).flatMap(([kind, run]) =>
  ['as its first queries', 'after a query'].map((when) => [kind, when, run] as const),
)

describe.each(programs)('%s, %s', (_kind, when, run) => {
  const cases = Object.entries(FIRST_OPERATIONS).flatMap(([first, runFirst]) =>
    Object.entries(SECOND_OPERATIONS).flatMap(([second, runSecond]) =>
      (['throws', 'returns'] as const).map((end) => [first, second, end, runFirst, runSecond] as const),
    ),
  )
  test.each(cases)(
    '%s, and then %s, when the callback %s',
    async (_first, _second, end, runFirst, runSecond) => {
      await insertItem(db, 'before').execute()
      const queries: Promise<unknown>[] = []
      const error = await run(async (trx) => {
        if (when === 'after a query') await insertItem(trx, 'awaited').execute()
        queries.push(runFirst(trx), runSecond(trx))
        for (const query of queries) query.catch(() => {})
        if (end === 'throws') throw ownError
      }).then(
        () => null,
        (reason: unknown) => reason,
      )
      if (end === 'throws') expect(error).toBe(ownError)
      const [first, second] = await Promise.allSettled(queries)
      const names = await readNames()
      const hasRow = (name: string): boolean => names.includes(name)
      expect(hasRow('before')).toBe(true)
      if (error !== null) {
        expect(hasRow('first') || hasRow('second')).toBe(false)
      } else {
        // exactly the queries that report success ran before the COMMIT
        if (hasRow('first')) expect(first?.status).toBe('fulfilled')
        expect(hasRow('second')).toBe(second?.status === 'fulfilled')
      }
    },
  )
})

test('a connection can be used after a transaction in which Promise.all() rejected', async () => {
  await db.connection().execute(async (connection) => {
    const transaction = connection.transaction().execute(async (trx) => {
      const names = [null as unknown as string, 'a', 'b', 'c']
      await Promise.all(names.map((name) => insertItem(trx, name).execute()))
    })
    await expect(transaction).rejects.toMatchObject({ extendedCode: 'SQLITE_CONSTRAINT_NOTNULL' })
    await insertItem(connection, 'after').execute()
  })
  expect(await readNames()).toEqual(['after'])
})

test('a query after a cursor that is read beyond the end of its transaction is rejected', async () => {
  await db.connection().execute(async (connection) => {
    const readingStarted = Promise.withResolvers<void>()
    const continueReading = Promise.withResolvers<void>()
    const queries: Promise<unknown>[] = []
    await connection.transaction().execute(async (trx) => {
      await insertItem(trx, 'first').execute()
      const read = async (): Promise<void> => {
        for await (const _ of trx.selectFrom('item').selectAll().stream()) {
          readingStarted.resolve()
          await continueReading.promise
        }
      }
      queries.push(read(), insertItem(trx, 'second').execute())
      await readingStarted.promise
    })
    await expect(insertItem(connection, 'early').execute()).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
    continueReading.resolve()
    const [read, second] = await Promise.allSettled(queries)
    expect([read?.status, second?.status]).toEqual(['fulfilled', 'rejected'])
    await waitFor(() => insertItem(connection, 'after').execute())
  })
  expect(await readNames()).toEqual(['first', 'after'])
})

test('a batch that is not awaited before commit() returns its results', async () => {
  const trx = await db.startTransaction().execute()
  const results = batch(trx, [insertItem(trx, 'a').returningAll(), trx.selectFrom('item').select('name')])
  await trx.commit().execute()
  expect(await results).toEqual([[{ id: 1, name: 'a' }], [{ name: 'a' }]])
})

describe.each(['a transaction', 'a transaction of a connection'] as const)(
  '%s with twenty queued inserts: none of them runs outside it',
  (kind) => {
    const insertMany = (trx: Kysely<Tables>): Promise<unknown>[] =>
      Array.from({ length: 20 }, () =>
        insertItem(trx, 'second')
          .execute()
          .catch(() => {}),
      )
    const unencodable = Symbol('not encodable') as unknown as string

    test.each([
      ['a batch that cannot be encoded', (trx: Kysely<Tables>) => batch(trx, [insertItem(trx, unencodable)])],
      [
        'a stream that cannot be encoded',
        (trx: Kysely<Tables>) => readAll(insertItem(trx, unencodable).returningAll().stream()),
      ],
    ])('after %s, when the callback throws a few microtasks later', async (_, runFirst) => {
      for (const microtasks of [0, 1, 2, 3, 5, 8, 12, 20, 30, 50]) {
        const queries: Promise<unknown>[] = []
        const run = TRANSACTION_KINDS[kind] as (body: Callback) => Promise<void>
        const transaction = run(async (trx) => {
          queries.push(
            runFirst(trx).catch(() => {}),
            ...insertMany(trx),
          )
          for (let index = 0; index < microtasks; index++) await Promise.resolve()
          throw ownError
        })
        await expect(transaction).rejects.toBe(ownError)
        await Promise.all(queries)
      }
      expect(await readNames()).not.toContain('second')
    })

    test('after the server has ended it, when the callback returns', async () => {
      await sql`create unique index once on item (name) where name = 'one'`.execute(db)
      const queries: Promise<unknown>[] = []
      const transaction = db.transaction().execute(async (trx) => {
        await insertItem(trx, 'one').execute()
        await rollBackOnConflict.execute(trx).catch(() => {})
        await expect(insertItem(trx, 'lost').execute()).rejects.toThrow()
        queries.push(...insertMany(trx))
      })
      await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
      await Promise.all(queries)
      expect(await readNames()).toEqual([])
    })
  },
)

test('after a lost COMMIT the controlled transaction runs nothing more', async () => {
  await sql`create unique index once on item (name) where name = 'one'`.execute(db)
  const trx = await db.startTransaction().execute()
  await insertItem(trx, 'one').execute()
  await rollBackOnConflict.execute(trx).catch(() => {})
  await expect(trx.commit().execute()).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  await expect(insertItem(trx, 'outside').execute()).rejects.toThrow()
  await trx.rollback().execute()
  expect(await readNames()).toEqual([])
})
