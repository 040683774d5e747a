import { type Client, createClient, executeMultiple, optimistic, readRows } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely } from 'kysely'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { ExecuteOnlyProxy } from '../support/execute-only-proxy.ts'
import { collect, readColumn } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

// Servers that support only `execute` and `close`, which is all that the specification requires.

const { database, db: direct } = await openTestClient()
const proxy = await ExecuteOnlyProxy.start(database.url)
const config = { ...database.config, url: proxy.url }
const db = createClient(config)
afterAll(async () => {
  await db.close()
  await proxy.close()
})
beforeEach(async () => {
  await direct.batch(['drop table if exists t', 'create table t (a integer not null unique)'])
  proxy.requests.length = 0
})
const readValues = () => readColumn(direct, 'select a from t order by rowid')
const insert = (a: number) => ({ sql: 'insert into t values (?)', args: [a] })

test('sends BEGIN with the first statement, and COMMIT with the close of the stream', async () => {
  const result = await db.transaction(async (tx) => {
    await tx.execute(insert(1))
    return await tx.execute('insert into t values (2) returning a')
  })
  expect(result.rows).toEqual([{ a: 2 }])
  expect(await readValues()).toEqual([1, 2])
  expect(proxy.requests.slice(-3)).toEqual([
    ['BEGIN IMMEDIATE', 'BEGIN DEFERRED', 'insert into t values (?)'],
    ['insert into t values (2) returning a'],
    ['COMMIT', 'close'],
  ])
})

test('the server is probed once for what it supports', async () => {
  await using other = createClient(config)
  await other.batch([insert(1)])
  await other.transaction((tx) => tx.execute(insert(2)))
  expect(proxy.requests.filter(([sql]) => sql === 'SELECT 1')).toHaveLength(1)
  expect(await readValues()).toEqual([1, 2])
})

test('a transaction whose callback throws is rolled back', async () => {
  const transaction = db.transaction(async (tx) => {
    await tx.execute(insert(1))
    throw new Error('own error')
  })
  await expect(transaction).rejects.toThrow('own error')
  expect(await readValues()).toEqual([])
})

test('a batch is atomic', async () => {
  expect(await db.batch([insert(1), 'select a from t'])).toMatchObject([{}, { rows: [{ a: 1 }] }])
  const failed = db.batch([insert(2), insert(1), insert(3)])
  await expect(failed).rejects.toMatchObject({
    code: 'SQLITE_CONSTRAINT',
    statementIndex: 1,
    outcome: 'not_applied',
  })
  expect(await readValues()).toEqual([1])
})

test('a batch whose COMMIT is rejected is rolled back', async () => {
  await direct.batch([
    'drop table if exists child',
    'create table child (a references t (a) deferrable initially deferred)',
  ])
  await expect(db.batch(['insert into child values (9)'])).rejects.toMatchObject({ outcome: 'not_applied' })
  expect((await direct.execute('select * from child')).rows).toEqual([])
  await direct.execute('drop table child')
})

test('savepoints work', async () => {
  await db.transaction(async (tx) => {
    await tx.execute(insert(1))
    const undone = tx.savepoint(async (inner) => {
      await inner.execute(insert(2))
      throw new Error('undo')
    })
    await expect(undone).rejects.toThrow('undo')
    await tx.savepoint((inner) => inner.execute(insert(3)))
  })
  expect(await readValues()).toEqual([1, 3])
})

test.each<[string, (tx: Parameters<Parameters<Client['transaction']>[0]>[0]) => Promise<unknown>]>([
  ['alone', (tx) => tx.execute('insert or rollback into t values (1)')],
  [
    'before others',
    (tx) => Promise.all([tx.execute('insert or rollback into t values (1)'), tx.execute(insert(5))]),
  ],
  ['in a batch', (tx) => tx.batch(['insert or rollback into t values (1)', insert(5)])],
])('nothing runs outside of a transaction that a statement ended: %s', async (_, endTransaction) => {
  const transaction = db.transaction(async (tx) => {
    await tx.execute(insert(1))
    await endTransaction(tx).catch(() => {})
    await tx.execute(insert(6))
  })
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST', outcome: 'not_applied' })
  expect(await readValues()).toEqual([])
})

test('a lost transaction is not committed', async () => {
  const transaction = db.transaction(async (tx) => {
    await tx.execute(insert(1))
    await tx.execute('insert or rollback into t values (1)').catch(() => {})
  })
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  expect(await readValues()).toEqual([])
})

test('a transaction is not committed if the end of a savepoint before its COMMIT fails', async () => {
  await using stream = openStream(db)
  stream.begin()
  await stream.execute(insert(1))
  stream.release('missing')
  await expect(stream.commit()).rejects.toThrow(/no such savepoint/)
  expect(await readValues()).toEqual([])
})

test('scripts run with and without a transaction', async () => {
  await executeMultiple(
    db,
    'insert into t values (1); begin; insert into t values (2); commit; insert into t values (3)',
  )
  const failed = executeMultiple(
    db,
    'insert into t values (4); insert into t values (1); insert into t values (5)',
  )
  await expect(failed).rejects.toMatchObject({
    code: 'SQLITE_CONSTRAINT',
    statementIndex: 1,
    outcome: 'unknown',
  })
  expect(await readValues()).toEqual([1, 2, 3, 4])
})

describe('a script whose second request fails', () => {
  type Failure = (client: () => Client) => Response | Promise<Response>
  const FAILURES: Record<string, Failure> = {
    'expired stream': () =>
      Response.json({ message: 'The stream has expired', code: 'STREAM_EXPIRED' }, { status: 400 }),
    'closed client': async (client) => {
      void client().close()
      return await new Promise<Response>(() => {})
    },
    'rejected request': () => new Response('', { status: 429 }),
    'lost response': () => new Response('<html>', { status: 502 }),
  }
  const SCRIPT = 'insert into t values (1); insert into t values (2)'

  /** Opens a client whose requests fail after the first statement of a script. */
  function openFaulty(fail: Failure): Client {
    let statements = 0
    const fetch = async (url: string, init: { body: string }): Promise<Response> => {
      const isStatement = init.body.includes('"type":"execute"') && !init.body.includes('SELECT 1')
      if (isStatement && (statements += 1) > 1) return await fail(() => faulty)
      return await globalThis.fetch(url, init)
    }
    const faulty = createClient({ ...config, maxRetries: 0, fetch: fetch as never })
    return faulty
  }

  test.each(Object.entries(FAILURES))('%s: the first statement is applied', async (_, fail) => {
    await using faulty = openFaulty(fail)
    await expect(executeMultiple(faulty, SCRIPT)).rejects.toMatchObject({ outcome: 'unknown' })
    expect(await readValues()).toEqual([1])
  })

  test('client closed before it is sent: the first statement is applied', async () => {
    const faulty: Client = createClient({
      ...config,
      authToken: async () => {
        if (proxy.requests.flat().includes('insert into t values (1)')) {
          void faulty.close()
          await new Promise(() => {})
        }
        return database.config.authToken ?? ''
      },
    })
    const script = executeMultiple(faulty, SCRIPT)
    await expect(script).rejects.toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
    expect(await readValues()).toEqual([1])
  })

  test('nothing is applied after a read', async () => {
    await using faulty = openFaulty(FAILURES['expired stream'] as Failure)
    const script = executeMultiple(faulty, 'select 7; insert into t values (2)')
    await expect(script).rejects.toMatchObject({ outcome: 'not_applied' })
    expect(await readValues()).toEqual([])
  })
})

test.each([insert(9), 'insert or rollback into t values (1)', 'insert into missing values (1)'])(
  'no statement of a batch in a transaction runs after the one that failed: %j',
  async (last) => {
    await db.transaction(async (tx) => {
      await tx.execute(insert(1))
      const failed = tx.batch([insert(2), insert(1), last])
      await expect(failed).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT', statementIndex: 1 })
      await tx.execute(insert(4))
    })
    expect(await readValues()).toEqual([1, 2, 4])
  },
)

test('no write of a deferred batch is sent after a statement that failed, because it would wait for the write lock', async () => {
  const guard = "select json('no JSON')"
  for (const first of [[guard], ['select 1', guard]]) {
    const batch = db.batch([...first, insert(1)], { mode: 'deferred' })
    await expect(batch).rejects.toMatchObject({ statementIndex: first.length - 1, outcome: 'not_applied' })
  }
  expect(proxy.requests.flat().filter((sql) => sql.startsWith('insert'))).toEqual([])
  await db.batch(['select 1', insert(1)], { mode: 'deferred' })
  expect(await readValues()).toEqual([1])
})

test('readRows reads the whole result', async () => {
  await direct.batch([insert(1), insert(2), insert(3)])
  const values: unknown[] = []
  for await (const { a } of readRows<{ a: number }>(db, 'select a from t')) values.push(a)
  for await (const { a } of readRows<{ a: number }>(db, 'select a from t')) {
    values.push(a)
    break
  }
  await db.transaction(async (tx) => {
    await tx.execute(insert(4))
    for await (const { a } of readRows<{ a: number }>(tx, 'select a from t where a > 2')) values.push(a)
    await tx.execute(insert(5))
  })
  expect(values).toEqual([1, 2, 3, 1, 3, 4])
  expect(await readValues()).toEqual([1, 2, 3, 4, 5])
})

test('a stream that began with a statement can begin transactions', async () => {
  await using other = createClient(config)
  await using stream = openStream(other)
  await stream.execute(insert(1))
  stream.begin()
  await stream.execute(insert(2))
  await stream.rollback()
  stream.begin()
  await stream.execute(insert(3))
  await stream.commit()
  expect(await readValues()).toEqual([1, 3])
})

test('a statement that failed outside a transaction does not affect the next one', async () => {
  await using stream = openStream(db)
  await expect(stream.chain([insert(1), insert(1)])).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
  stream.begin()
  await stream.execute(insert(2))
  await stream.commit()
  expect(await readValues()).toEqual([1, 2])
})

test('Kysely works', async () => {
  const kysely = new Kysely<{ t: { a: number } }>({ dialect: new BatonDialect(config) })
  await kysely.transaction().execute(async (trx) => {
    await trx.insertInto('t').values({ a: 1 }).execute()
    await trx.insertInto('t').values({ a: 2 }).execute()
  })
  const failed = kysely.transaction().execute(async (trx) => {
    await trx.insertInto('t').values({ a: 3 }).execute()
    await trx.insertInto('t').values({ a: 1 }).execute()
  })
  await expect(failed).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
  await kysely.destroy()
  expect(await readValues()).toEqual([1, 2])
})

test('an optimistic transaction is an ordinary one, once it is known that batches are not supported', async () => {
  await direct.execute(insert(1))
  const run = (client: Client) =>
    optimistic(client, async (tx) => {
      const { rows } = await tx.execute<{ a: number }>('select max(a) as a from t')
      return [insert((rows[0]?.a ?? 0) + 1)]
    })
  await run(db)
  proxy.requests.length = 0
  await run(db)
  expect(proxy.requests.flat().filter((sql) => sql.includes('max(a)'))).toHaveLength(1)
  await using unused = createClient(config)
  await run(unused)
  expect(await readValues()).toEqual([1, 2, 3, 4])
})

test('a number that is not exact in the rows of a write does not end the transaction', async () => {
  await using exact = createClient({ ...config, intMode: 'number' })
  await exact.transaction(async (tx) => {
    const rows = collect(readRows(tx, 'insert into t values (9007199254740993) returning a'))
    await expect(rows).rejects.toMatchObject({ name: 'RangeError', outcome: 'unknown' })
    await tx.execute(insert(1))
  })
  expect(await readValues()).toEqual([9007199254740993n, 1])
})
