import { createClient, type Transaction } from '@batonsql/core'
import { expect, onTestFinished, test } from 'vitest'
import { ExecuteOnlyProxy } from '../support/execute-only-proxy.ts'
import { requireTursodb, startTursodb } from '../support/tursodb.ts'

requireTursodb()

test('behind a server that supports only `execute`, writers of two clients wait for each other', async () => {
  const server = await startTursodb()
  const proxy = await ExecuteOnlyProxy.start(server.url)
  onTestFinished(() => proxy.close())
  await using db = createClient({ url: proxy.url })
  await using other = createClient({ url: proxy.url })
  await db.execute('create table t (a)')
  const calls = Array.from({ length: 20 }, (_, a) => {
    const client = a % 2 ? db : other
    const insert = `insert into t values (${a})`
    if (a % 3 === 0) return client.batch([insert, 'select 1'])
    return client.transaction(async (tx) => {
      await tx.execute(insert)
      await tx.execute('select 1')
    })
  })
  await Promise.all(calls)
  const { rows } = await db.execute('select count(*) as n, count(distinct a) as d from t')
  expect(rows).toEqual([{ n: 20, d: 20 }])
  expect(server.streamCount).toBe(0)
})

test.each<[string, (tx: Transaction) => Promise<unknown>]>([
  ['a statement', (tx) => tx.execute('insert into t values (2)')],
  ['a batch', (tx) => tx.batch(['insert into t values (2)', 'select 1', 'select 2'])],
  [
    'several calls at once',
    (tx) => Promise.all([tx.execute('insert into t values (2)'), tx.batch(['select 1', 'select 2'])]),
  ],
])('a transaction that begins with %s waits for the one of another client', async (_, run) => {
  const server = await startTursodb()
  const proxy = await ExecuteOnlyProxy.start(server.url)
  onTestFinished(() => proxy.close())
  await using other = createClient({ url: proxy.url })
  await other.execute('create table t (a)')
  const rejected = Promise.withResolvers<void>()
  await using db = createClient({
    url: proxy.url,
    // the engine has rejected a BEGIN
    observe: ({ type }) => {
      if (type === 'retry') rejected.resolve()
    },
  })
  let waiting: Promise<unknown> | undefined
  await other.transaction(async (tx) => {
    await tx.execute('insert into t values (1)')
    waiting = db.transaction(run)
    await Promise.race([rejected.promise, waiting])
  })
  await waiting
  expect((await db.execute('select a from t order by a')).rows).toEqual([{ a: 1 }, { a: 2 }])
  expect(server.streamCount).toBe(0)
})
