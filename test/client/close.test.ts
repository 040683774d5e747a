import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient, executeMultiple, isHealthy, readRows } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { beforeEach, describe, expect, test } from 'vitest'
import { readColumn, slowRead } from '../support/fixtures.ts'
import { expectNoStall } from '../support/no-stall.ts'
import { openTestClient } from '../support/test-server.ts'

// Calls in flight when a client is closed, and more concurrent calls than the limit.
const { database, db: direct } = await openTestClient()
beforeEach(() => direct.batch(['drop table if exists t', 'create table t (a)']))
const readValues = () => readColumn(direct, 'select a from t order by a')
/** Writes in transactions that run at the same time. If the lock were taken over, the one that held it would be lost. */
const writeTwiceAtOnce = (db: Client, count: number, between = async (): Promise<unknown> => null) =>
  Promise.all(
    Array.from({ length: count }, (_, i) =>
      db.transaction(async (tx) => {
        await tx.execute('insert into t values (?)', [i])
        await between()
        await tx.execute('insert into t values (?)', [i])
      }),
    ),
  )
const SLOW_QUERY = slowRead(400000, 'max(i) as n')

describe('close', () => {
  /** Runs a transaction with two writes, and waits between them. */
  const openTransaction = (db: Client, wait: () => Promise<unknown>) => {
    const opened = Promise.withResolvers<void>()
    const transaction = db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      opened.resolve()
      await wait()
      await tx.execute('insert into t values (2)')
    })
    return { transaction, opened: opened.promise }
  }

  test('without drainMs: calls in flight are aborted at once, and the write lock is released', async () => {
    const db = createClient(database.config)
    const { transaction, opened } = openTransaction(db, () => pause(30))
    const rejected = expect(transaction).rejects.toThrow()
    await opened
    const query = expect(db.execute(SLOW_QUERY)).rejects.toThrow('the client is closed')
    await db.close()
    await Promise.all([rejected, query])
    const closedError = { code: 'CLOSED', outcome: 'not_applied', message: 'the client is closed' }
    await expect(db.execute('select 1')).rejects.toMatchObject(closedError)
    await expect(db.transaction((tx) => tx.execute('select 1'))).rejects.toMatchObject(closedError)
    await db.close()
    await expectNoStall(() => direct.execute('insert into t values (3)'))
    expect(await readValues()).toEqual([3])
  })

  test('with drainMs: pending calls, queued calls and transactions finish, and new calls are rejected', async () => {
    const db = createClient({ ...database.config, concurrency: 2 })
    const { transaction, opened } = openTransaction(db, () => pause(50))
    await opened
    const queries = Promise.all([SLOW_QUERY, SLOW_QUERY, SLOW_QUERY].map((sql) => db.execute(sql)))
    const closed = db.close({ drainMs: 20_000 })
    await expect(db.execute('select 1')).rejects.toThrow('the client is closed')
    await expect(db.transaction((tx) => tx.execute('select 1'))).rejects.toThrow()
    await transaction
    expect((await queries).map(({ rows }) => rows[0]?.['n'])).toEqual([400_000, 400_000, 400_000])
    await closed
    expect(await readValues()).toEqual([1, 2])
  })

  test('with drainMs: calls that were made in the same tick finish', async () => {
    const db = createClient(database.config)
    const calls = [
      db.execute('select 1'),
      db.batch(['select 2']),
      db.transaction((tx) => tx.execute('select 3')),
    ]
    const closed = db.close({ drainMs: 20_000 })
    await expect(db.batch(['select 4'])).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
    const rows = (await Promise.all(calls)).flat().flatMap((result) => result.rows)
    expect(rows).toEqual([{ 1: 1 }, { 2: 2 }, { 3: 3 }])
    await closed
  })

  test('after drainMs: pending calls are aborted', async () => {
    const db = createClient(database.config)
    const closed = Promise.withResolvers<void>()
    const { transaction, opened } = openTransaction(db, () => closed.promise)
    const rejected = expect(transaction).rejects.toThrow()
    await opened
    await db.close({ drainMs: 60 })
    closed.resolve()
    await rejected
  })

  test('without calls in flight: settles at once', async () => {
    const db = createClient(database.config)
    await db.execute('select 1')
    await db.transaction((tx) => tx.execute('select 1'))
    await expect(db.transaction((tx) => tx.execute('selec'))).rejects.toThrow()
    await db.close({ drainMs: Infinity })
  })
})

describe('close while calls wait for a retry', () => {
  /** Creates a client of a server that is overloaded at first. */
  const createOverloadedClient = (retryAfter: string, rejections: number) => {
    const requested = Promise.withResolvers<void>()
    let requests = 0
    const response = '{"baton":null,"base_url":null,"results":[]}'
    const db = createClient({
      url: 'http://x',
      fetch: async () => {
        requested.resolve()
        const status = requests++ < rejections ? 429 : 200
        return { status, headers: { get: () => retryAfter }, text: async () => response }
      },
    })
    return { db, requested: requested.promise, count: () => requests }
  }

  test('aborts them without drainMs', async () => {
    // otherwise, it would wait for 15 minutes
    const { db, requested, count } = createOverloadedClient('900', Infinity)
    const endless = db.execute('select 1', [], { timeoutMs: Infinity })
    const call = expect(endless).rejects.toThrow('the client is closed')
    await requested
    await pause(10)
    await db.close()
    await call
    expect(count()).toBe(1)
  })

  test('lets them finish with drainMs', async () => {
    const { db, requested, count } = createOverloadedClient('1', 1)
    const call = isHealthy(db)
    await requested
    await pause(10)
    await db.close({ drainMs: 10_000 })
    expect(await Promise.race([call, Promise.resolve('not yet')])).toBe(true)
    expect(count()).toBe(2)
  })

  test('a transaction is not retried', async () => {
    for (const drainMs of [0, 10_000]) {
      const { db, requested } = createOverloadedClient('1', Infinity)
      const transaction = db.transaction((tx) => tx.execute('select 1'), { maxRetries: 1000 })
      const rejected = expect(transaction).rejects.toThrow(drainMs ? '429' : 'the client is closed')
      await requested
      await pause(10)
      await db.close({ drainMs })
      await rejected
    }
  })
})

describe('closing twice', () => {
  test('with drainMs: both settle when the pending calls have finished', async () => {
    const db = createClient(database.config)
    const query = db.execute(SLOW_QUERY)
    await Promise.all([db.close({ drainMs: Infinity }), db.close({ drainMs: Infinity })])
    expect(await Promise.race([query, Promise.resolve('not yet')])).not.toBe('not yet')
  })

  test('without drainMs, during a close with drainMs: both settle at once', async () => {
    const db = createClient(database.config)
    const stream = openStream(db)
    stream.begin()
    await stream.execute('insert into t values (1)')
    const withDrain = db.close({ drainMs: Infinity })
    await db.close()
    await withDrain
    expect(await readValues()).toEqual([])
  })

  test('rejects invalid times', async () => {
    const db = createClient(database.config)
    await expect(db.close({ drainMs: Number.NaN })).rejects.toThrow('drainMs must be')
    await expect(db.close({ drainMs: -1 })).rejects.toThrow('drainMs must be')
    await db.close({ drainMs: Infinity })
  })
})

describe('more calls than the concurrency limit', () => {
  test('all of them finish', async () => {
    await using db = createClient({ ...database.config, concurrency: 3 })
    const results = await Promise.all(Array.from({ length: 100 }, (_, i) => db.execute('select ? as i', [i])))
    expect(results.map(({ rows }) => rows[0]?.['i'])).toEqual(Array.from({ length: 100 }, (_, i) => i))
  })

  test('transactions that wait for the write lock do not prevent its holder from ending', async () => {
    await using db = createClient({ ...database.config, concurrency: 2 })
    await writeTwiceAtOnce(db, 20)
    expect(await readValues()).toHaveLength(40)
  })

  test('a statement outside a transaction can be awaited inside it', async () => {
    await using db = createClient({ ...database.config, concurrency: 1 })
    await db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 0 }])
    })
  })

  test('a read outside a transaction does not wait for queued writes', async () => {
    await using db = createClient({ ...database.config, concurrency: 2 })
    await writeTwiceAtOnce(db, 6, async () => {
      await db.execute('select count(*) from t')
      await db.batch(['select count(*) from t'], { mode: 'readonly' })
    })
    expect(await readValues()).toHaveLength(12)
  })

  test('reads that acquire the write lock are queued like writes', async () => {
    await using db = createClient({ ...database.config, concurrency: 1 })
    const { waiting } = await db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      const batch = db.batch(['select 1'], { mode: 'immediate' })
      await pause(20)
      await db.execute('select 1')
      return { waiting: batch }
    })
    await waiting
  })

  test('a full queue rejects calls, including those in a transaction', async () => {
    await using db = createClient({ ...database.config, concurrency: 1, queueLimit: 2 })
    const insertAll = (executor: Pick<Client, 'execute'>, values: number[]) =>
      Promise.allSettled(values.map((a) => executor.execute('insert into t values (?)', [a])))
    const done = { status: 'fulfilled' }
    const full = { status: 'rejected', reason: { code: 'QUEUE_FULL' } }
    expect(await insertAll(db, [1, 2, 3, 4, 5])).toMatchObject([done, done, done, full, full])
    await db.transaction(async (tx) => {
      expect(await insertAll(tx, [11, 12, 13])).toMatchObject([done, done, { status: 'rejected' }])
    })
    expect(await readValues()).toEqual([1, 2, 3, 11, 12])
  })
})

test('a read-only transaction awaited inside one that writes does not wait for queued writers', async () => {
  await using db = createClient({ ...database.config, concurrency: 2 })
  const read = () => db.transaction((tx) => tx.execute('select count(*) from t'), { mode: 'readonly' })
  await writeTwiceAtOnce(db, 6, read)
})

test('close with drainMs waits for a loop over rows, and rejects a new one', async () => {
  const db = createClient(database.config)
  const rows = readRows(db, slowRead(500, 'i'))
  await rows.next()
  const closed = db.close({ drainMs: 20_000 })
  await expect(readRows(db, 'select 1').next()).rejects.toThrow('the client is closed')
  let count = 1
  for await (const row of rows) count += row['i'] ? 1 : 0
  expect(count).toBe(500)
  await closed
})

test('a stream that is idle when the client is closed rejects later calls', async () => {
  const db = createClient(database.config)
  const [idle, inTransaction] = [openStream(db), openStream(db)]
  await idle.execute('select 1')
  inTransaction.begin()
  await inTransaction.execute('insert into t values (1)')
  await db.close()
  await expect(idle.execute('select 1')).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
  await expect(inTransaction.execute('select 1')).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
})

test('close with drainMs waits for a script in flight, and rejects a new one', async () => {
  const db = createClient(database.config)
  const sql = 'insert into t values (1); begin; insert into t values (2); commit; insert into t values (3)'
  const script = executeMultiple(db, sql)
  const closed = db.close({ drainMs: 20_000 })
  await expect(executeMultiple(db, 'select 1')).rejects.toThrow('the client is closed')
  await script
  await closed
  expect(await readValues()).toEqual([1, 2, 3])
})
