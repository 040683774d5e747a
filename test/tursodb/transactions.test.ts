import { type ClientEvent, createClient, optimistic, SqlError } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { expect, onTestFinished, test } from 'vitest'
import { holdWriteLock } from '../support/fixtures.ts'
import { openTursodb, requireTursodb } from '../support/tursodb.ts'

requireTursodb()

/** Opens two clients of a database. `retried` is fulfilled at the given retry of the first one. */
async function openTwoClients(retryCount = 1) {
  const { promise: retried, resolve } = Promise.withResolvers<void>()
  let retries = 0
  const { server, db } = await openTursodb(['create table t (a)'], {
    observe: ({ type }) => {
      if (type === 'retry' && (retries += 1) === retryCount) resolve()
    },
  })
  const other = createClient({ url: server.url })
  onTestFinished(() => other.close())
  return { server, db, other, retried }
}

test('supports read-only transactions', async () => {
  const { server, db } = await openTursodb(['create table t (a)'])
  const read = (): Promise<unknown> =>
    db.transaction(async (tx) => (await tx.execute('select count(*) as n from t')).rows, { mode: 'readonly' })
  const countReadRequests = async (): Promise<number> => {
    const before = server.requestCount()
    expect(await read()).toEqual([{ n: 0 }])
    return server.requestCount() - before
  }
  // only the first one is rejected
  expect(await countReadRequests()).toBe(3)
  expect(await countReadRequests()).toBe(2)
  expect(await db.batch(['select 1', 'select 2'], { mode: 'readonly' })).toHaveLength(2)
  expect(server.bodies.filter((body) => body.includes('BEGIN READONLY'))).toHaveLength(1)
  expect(server.streamCount).toBe(0)
})

test('supports a read-only batch as the first call of a client', async () => {
  const { server, db } = await openTursodb()
  const [one, two] = await db.batch(['select 1 as a', 'select 2 as a'], { mode: 'readonly' })
  expect([one?.rows, two?.rows]).toEqual([[{ a: 1 }], [{ a: 2 }]])
  expect(server.requestCount()).toBe(2)
  expect(server.streamCount).toBe(0)
})

test('accepts BEGIN READONLY as SQL, and in the text of a statement', async () => {
  const { db } = await openTursodb()
  await using stream = openStream(db)
  stream.begin('begin  readonly')
  const { rows } = await stream.execute(`select '"sql":"BEGIN READONLY"' as a`)
  expect(rows).toEqual([{ a: '"sql":"BEGIN READONLY"' }])
  await stream.commit()
})

test('retries a syntax error near READONLY only once', async () => {
  const { server, db } = await openTursodb(['create table t (a)'])
  const before = server.requestCount()
  const error = await db.execute('insert into t values (1) readonly').catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: 'SQL_PARSE_ERROR', outcome: 'not_applied' })
  expect(server.requestCount() - before).toBe(2)
  await using stream = openStream(db)
  stream.begin('begin\nreadonly')
  expect((await stream.execute('select count(*) as n from t')).rows).toEqual([{ n: 0 }])
  await stream.commit()
})

test('eight write transactions of one client run in the order of their calls', async () => {
  const { server, db } = await openTursodb(['create table t (a integer primary key)'])
  const order: number[] = []
  const insert = (a: number): Promise<void> =>
    db.transaction(async (tx) => {
      await tx.execute('insert into t values (?)', [a])
      await tx.execute('select 1')
      order.push(a)
    })
  for (const first of [0, 8])
    await Promise.all(Array.from({ length: 8 }, (_, index) => insert(first + index)))
  // until the client has detected the engine, it sends two at a time, and either may be the first
  const [earlier, later] = [order.slice(0, 2), order.slice(2)]
  expect([...earlier.toSorted(), ...later]).toEqual(Array.from({ length: 16 }, (_, index) => index))
  expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 16 }])
  expect(server.streamCount).toBe(0)
})

test('once the engine is detected, no request from a client is rejected because of its own transactions', async () => {
  const events: ClientEvent[] = []
  const { db } = await openTursodb(['create table t (a)'], { observe: (event) => events.push(event) })
  await expect(db.execute('select * from missing')).rejects.toThrow('no such table')
  const insertTwice = (): Promise<void> =>
    db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      await tx.execute('insert into t values (1)')
    })
  await Promise.all([
    insertTwice(),
    db.execute('insert into t values (2)'),
    insertTwice(),
    db.batch(['insert into t values (3)', 'insert into t values (3)']),
    insertTwice(),
    db.execute('select * from t'),
    db.transaction((reading) => reading.execute('select * from t'), { mode: 'readonly' }),
  ])
  expect((await db.execute('select a, count(*) as n from t group by a order by a')).rows).toEqual([
    { a: 1, n: 6 },
    { a: 2, n: 1 },
    { a: 3, n: 2 },
  ])
  expect(events.filter(({ type }) => type === 'retry')).toEqual([])
})

test('writers wait for the transaction of another client', async () => {
  const { server, db, other, retried } = await openTwoClients(3)
  const release = await holdWriteLock(other)
  const order: string[] = []
  const writes = Promise.all([
    db.execute("insert into t values ('execute')").then(() => order.push('execute')),
    db.batch(["insert into t values ('batch')"]).then(() => order.push('batch')),
    db.transaction((tx) => tx.execute("insert into t values ('transaction')")).then(() => order.push('tx')),
  ])
  await retried
  expect((await db.execute('select * from t')).rows).toEqual([])
  await release()
  await writes
  expect(order).toHaveLength(3)
  expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 3 }])
  expect(server.streamCount).toBe(0)
})

test('a writer that is aborted leaves the queue', async () => {
  const controller = new AbortController()
  const { signal } = controller
  const reason = new Error('no longer wanted')
  const areAllSent = (): boolean =>
    [1, 2, 3].every((a) => server.bodies.some((body) => body.includes(`(${a})`)))
  const { server, db } = await openTursodb(['create table t (a)'], {
    // all three were rejected: the first is about to wait for the other client, and the others are queued
    observe: ({ type }) => {
      if (type === 'retry' && areAllSent()) controller.abort(reason)
    },
  })
  await using other = createClient({ url: server.url })
  const release = await holdWriteLock(other)
  const outcomes = await Promise.allSettled([
    db.execute('insert into t values (1)', [], { signal }),
    db.batch(['insert into t values (2)'], { signal }),
    db.transaction((tx) => tx.execute('insert into t values (3)', [], { signal })),
  ])
  expect(outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason)).toEqual([
    reason,
    reason,
    reason,
  ])
  const lastWrite = db.execute('insert into t values (4)')
  await release()
  await lastWrite
  expect((await db.execute('select a from t')).rows).toEqual([{ a: 4 }])
  await expect.poll(() => server.streamCount).toBe(0)
})

test('closing a client rejects its waiting writes', async () => {
  const { server, db, other, retried } = await openTwoClients()
  const release = await holdWriteLock(other)
  const writes = Promise.allSettled([
    db.transaction((tx) => tx.execute('insert into t values (1)')),
    db.execute('insert into t values (2)'),
  ])
  await retried
  await db.close()
  expect((await writes).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await release()
  expect((await other.execute('select * from t')).rows).toEqual([])
  expect(server.streamCount).toBe(0)
})

test('a write in a deferred transaction waits for the lock, but fails if its snapshot is outdated', async () => {
  const { db, other, retried } = await openTwoClients()
  const write = async (isOutdated: boolean): Promise<unknown> => {
    await using stream = openStream(db)
    stream.begin('deferred')
    await stream.execute('select * from t')
    const holder = openStream(other)
    holder.begin()
    await holder.execute(isOutdated ? 'insert into t values (1)' : 'select 1')
    const insert = stream.execute('insert into t values (2)')
    const settled = Promise.allSettled([insert])
    await retried
    await holder.commit()
    await holder.close()
    await settled
    await insert
    return await stream.commit()
  }
  await write(false)
  const error: unknown = await write(true).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(SqlError)
  expect(error).toMatchObject({ code: 'SQLITE_BUSY', extendedCode: 'SQLITE_BUSY_SNAPSHOT' })
  expect((await db.execute('select a from t order by a')).rows).toEqual([{ a: 1 }, { a: 2 }])
})

test('a call on the client that is awaited inside a transaction callback fails with a hint', async () => {
  const { db } = await openTursodb(['create table t (a)'])
  await expect(db.execute('select * from missing')).rejects.toThrow('no such table')
  const transaction = db.transaction(async (tx) => {
    await tx.execute('insert into t values (1)')
    await db.execute('insert into t values (2)', [], { timeoutMs: 50 })
  })
  await expect(transaction).rejects.toMatchObject({
    code: 'TIMEOUT',
    outcome: 'not_applied',
    message: expect.stringContaining("make it with the transaction's own handle"),
  })
  expect((await db.execute('select * from t')).rows).toEqual([])
})

test('supports optimistic transactions', async () => {
  const { db } = await openTursodb()
  await db.batch(['create table t (a text, n integer)', "insert into t values ('x', 1), ('y', null)"])
  let attempts = 0
  const [update] = await optimistic(db, async (tx) => {
    attempts += 1
    const { rows } = await tx.execute<{ n: number }>('select * from t order by a')
    if (attempts === 1) await db.execute('update t set n = 5 where n = 1')
    return [{ sql: 'update t set n = ? where a = ?', args: [(rows[0]?.n ?? 0) + 1, 'x'] }]
  })
  expect([attempts, update.rowsAffected]).toEqual([2, 1])
  expect((await db.execute('select n from t order by a')).rows).toEqual([{ n: 6 }, { n: null }])
})
