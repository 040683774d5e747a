import { type Client, createClient, executeMultiple, openStream, readRows } from '@batonsql/core'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely } from 'kysely'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { ExecuteOnlyProxy } from '../support/execute-only-proxy.ts'
import { openTestServer } from '../support/test-server.ts'

// Servers that support only `execute` and `close`, which is all that the specification requires.

const server = await openTestServer()
const database = await server.createDatabase()
const direct = createClient(database.config)
const proxy = await ExecuteOnlyProxy.start(database.url)
const config = { ...database.config, url: proxy.url }
const db = createClient(config)
afterAll(async () => {
  await db.close()
  await direct.close()
  await proxy.close()
})
beforeEach(async () => {
  await direct.batch(['drop table if exists t', 'create table t (a integer not null unique)'])
  proxy.requests.length = 0
})
const readValues = async (): Promise<unknown[]> =>
  (await direct.execute('select a from t order by rowid')).rows.map(({ a }) => a)
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

test('a batch in a transaction keeps the statements before the one that failed', async () => {
  await db.transaction(async (tx) => {
    await tx.execute(insert(1))
    const failed = tx.batch([insert(2), insert(1), insert(3)])
    await expect(failed).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT', statementIndex: 1 })
    await tx.execute(insert(4))
  })
  expect(await readValues()).toEqual([1, 2, 4])
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
