import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient } from '@batonsql/core'
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { FaultProxy } from '../../faults/fault-proxy.ts'
import { openTestServer } from '../../targets/test-server.ts'
import { ENDLESS_READ, settlesBefore } from '../fixtures.ts'

// A call that is given up settles at once, and no other call has to wait for it: the server keeps the write lock for up to 5 s
// for a stream that is not closed.
const server = await openTestServer()
const database = await server.createDatabase()
const direct = createClient(database.config)
const proxy = await FaultProxy.start(database.url)
afterAll(async () => {
  await direct.close()
  await proxy.close()
})
beforeEach(async () => {
  proxy.next = () => ({ kind: 'none' })
  await direct.batch(['drop table if exists t', 'create table t (a)'])
})
const STALL_MS = 4_000
const slowWrite = (rows: number): string =>
  `insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < ${rows}) select max(i) from n`
/** Time until a write of another client is through, in ms. */
async function nextWrite(): Promise<number> {
  const started = performance.now()
  await direct.execute('insert into t values (0)')
  return performance.now() - started
}
/** A call that has the write lock on the server, and whose answer takes its time. */
const slowAnswer = (): Client => {
  proxy.next = (body) => ({ kind: 'delay-answer', ms: body.includes('"close"') ? 0 : 800 })
  return createClient({ ...database.config, url: proxy.url })
}

describe('a call that is given up while its answer is under way', () => {
  test.each([
    ['by a signal', { signal: () => AbortSignal.timeout(60) }, { name: 'TimeoutError' }],
    ['by its time', { timeoutMs: 60 }, { code: 'TRANSACTION_LOST', cause: { code: 'TIMEOUT' } }],
  ] as const)(
    '%s: at once, and its write lock is free again',
    async (_, {
      signal,
      ...options
    }: {
      signal?: () => AbortSignal
      timeoutMs?: number
    }, error) => {
      await using db = slowAnswer()
      const given = db.transaction((tx) =>
        tx.execute('insert into t values (1)', [], { ...options, signal: signal?.() }),
      )
      expect(await settlesBefore(given, pause(750))).toBe(true)
      await expect(given).rejects.toMatchObject(error)
      expect(await nextWrite()).toBeLessThan(STALL_MS)
      expect((await direct.execute('select a from t')).rows).toEqual([{ a: 0 }])
    },
  )

  test('a commit: it may be there, and says so', async () => {
    const db = slowAnswer()
    proxy.next = (body) => ({ kind: 'delay-answer', ms: body.includes('COMMIT') ? 150 : 0 })
    await using stream = db.openStream()
    stream.begin()
    await stream.execute('insert into t values (1)')
    await expect(stream.commit({ timeoutMs: 60 })).rejects.toMatchObject({
      code: 'TIMEOUT',
      outcome: 'unknown',
    })
    expect(stream.inTransaction).toBe(false)
    expect(await nextWrite()).toBeLessThan(STALL_MS)
    expect((await direct.execute('select a from t')).rows).toEqual([{ a: 1 }, { a: 0 }])
    await db.close()
  })

  test('a read outside a transaction is dropped, so that the server ends it', async () => {
    await using db = createClient(database.config)
    const endless = ENDLESS_READ
    await expect(db.execute(endless, [], { timeoutMs: 60 })).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(await nextWrite()).toBeLessThan(STALL_MS)
  })
})

describe('close', () => {
  test('in the middle of a write: the call rejects at once, with the outcome unknown', async () => {
    const db = createClient(database.config)
    const call = db.execute(slowWrite(600_000))
    const heard = expect(call).rejects.toMatchObject({
      name: 'TransportError',
      code: 'CLOSED',
      outcome: 'unknown',
    })
    await pause(40)
    const closed = db.close()
    expect(await settlesBefore(call, closed)).toBe(true)
    await heard
    await closed
    expect(await nextWrite()).toBeLessThan(STALL_MS)
  })

  test('in a busy transaction', async () => {
    const db = createClient(database.config)
    const given = db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      await tx.execute(slowWrite(600_000))
    })
    const heard = expect(given).rejects.toMatchObject({ outcome: 'not_applied' })
    await pause(60)
    await db.close()
    await heard
    expect(await nextWrite()).toBeLessThan(STALL_MS)
    expect((await direct.execute('select a from t')).rows).toEqual([{ a: 0 }])
  })

  test('ends calls that wait for a token', async () => {
    const db = createClient({ ...database.config, authToken: () => new Promise<string>(() => {}) })
    const call = db.execute('insert into t values (1)')
    const heard = expect(call).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
    await pause(10)
    await db.close()
    await heard
  })
})

describe('before a request has left', () => {
  test('an abort while the token is fetched takes that call alone: the transaction goes on', async () => {
    let isSlow = false
    const token = database.authToken ?? ''
    await using db = createClient({
      ...database.config,
      authToken: () => (isSlow ? pause(60, token) : token),
    })
    await db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      isSlow = true
      const reason = new Error('changed my mind')
      const controller = new AbortController()
      const aborted = tx.execute('insert into t values (2)', [], { signal: controller.signal })
      const beside = tx.execute('insert into t values (3)')
      setTimeout(() => controller.abort(reason), 20)
      await expect(aborted).rejects.toBe(reason)
      await beside
    })
    expect((await direct.execute('select a from t')).rows).toEqual([{ a: 1 }, { a: 3 }])
  })

  test('the time for the token and the answer is one', async () => {
    await using db = createClient({
      ...database.config,
      url: proxy.url,
      authToken: () => pause(100, database.authToken ?? ''),
    })
    proxy.next = () => ({ kind: 'delay', ms: 400 })
    const given = db.execute('insert into t values (1)', [], { timeoutMs: 150 })
    expect(await settlesBefore(given, pause(230))).toBe(true)
    await expect(given).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test('queued writes whose time is over do not leave: none of them is unknown', async () => {
    await using db = createClient({ ...database.config, concurrency: 2 })
    const calls = await Promise.allSettled(
      Array.from({ length: 400 }, () => db.execute('insert into t values (1)', [], { timeoutMs: 60 })),
    )
    const reasons = calls.flatMap((call) =>
      call.status === 'rejected' ? [call.reason as { outcome: string }] : [],
    )
    const unknown = reasons.filter(({ outcome }) => outcome === 'unknown')
    expect(reasons.length).toBeGreaterThan(0)
    // those that were under way when their time was over: two at a time
    expect(unknown.length).toBeLessThanOrEqual(6)
  })
})

describe('many transactions at once', () => {
  test('of one client take turns here: none is lost in the queue of the server', async () => {
    await using db = createClient({ ...database.config, requestTimeoutMs: 1_500 })
    const run = (i: number) =>
      db.transaction(async (tx) => {
        await tx.execute('insert into t values (?)', [i])
        await pause(100)
      })
    await Promise.all(Array.from({ length: 24 }, (_, i) => run(i)))
    expect((await direct.execute('select count(*) as n from t')).rows).toEqual([{ n: 24 }])
  })

  test('wait for their turn as long as their timeout, and name what they waited for', async () => {
    await using db = createClient({ ...database.config, writeLockTimeoutMs: 120 })
    const hold = () =>
      db.transaction(async (tx) => {
        await tx.execute('insert into t values (1)')
        await pause(200)
      })
    const [first, second, third] = [hold(), hold(), hold()]
    await expect(third).rejects.toMatchObject({
      code: 'TIMEOUT',
      outcome: 'not_applied',
      message: 'waited 0.12 s for the write lock behind 2 transactions of this client (writeLockTimeoutMs)',
    })
    await Promise.all([first, second])
  })

  test('that are given up while they wait leave no trace', async () => {
    await using db = createClient(database.config)
    const holding = db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      await pause(800)
    })
    await pause(20)
    const waiting = Array.from({ length: 10 }, () =>
      db.transaction((tx) => tx.execute('insert into t values (2)', [], { signal: AbortSignal.timeout(30) })),
    )
    expect(await settlesBefore(Promise.allSettled(waiting), holding)).toBe(true)
    for (const each of waiting) await expect(each).rejects.toMatchObject({ name: 'TimeoutError' })
    await holding
    await db.transaction((tx) => tx.execute('insert into t values (3)'))
    expect((await direct.execute('select a from t')).rows).toEqual([{ a: 1 }, { a: 3 }])
  })
})

describe.runIf(inject('target') !== 'url')('a call inside a transaction that forgot its handle', () => {
  test.each([
    ['a transaction', (db: Client) => db.transaction((tx) => tx.execute('insert into t values (2)'))],
    ['a statement', (db: Client) => db.execute('insert into t values (2)')],
    ['a batch', (db: Client) => db.batch(['insert into t values (2)'])],
  ])('%s: the transaction expires and names it, and only the other write is there', async (_, call) => {
    await using db = createClient({ ...database.config, transactionTimeoutMs: 300 })
    const given = db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      await call(db)
    })
    await expect(given).rejects.toMatchObject({
      code: 'TRANSACTION_EXPIRED',
      outcome: 'not_applied',
      message: expect.stringMatching(/another call of this client waited for the write lock.*own handle/),
    })
    expect((await direct.execute('select a from t')).rows).toEqual([{ a: 2 }])
  })

  const OWN = { timeoutMs: 300 }
  test.each([
    [
      'a transaction',
      (db: Client) => db.transaction((tx) => tx.execute('insert into t values (2)', [], OWN)),
    ],
    ['a statement', (db: Client) => db.execute('insert into t values (2)', [], OWN)],
    ['a batch', (db: Client) => db.batch(['insert into t values (2)'], OWN)],
  ])('%s with a shorter time of its own: its error says so', async (_, call) => {
    for (const coalesce of [false, true]) {
      await using db = createClient({ ...database.config, coalesce })
      const given = db.transaction(async (tx) => {
        await tx.execute('insert into t values (1)')
        await call(db)
      })
      await expect(given).rejects.toThrow(
        /within 300 ms; another transaction of this client held the write lock.*own handle/,
      )
    }
  })

  test('a write that is not awaited there waits for the end of the transaction, however long that does something else', async () => {
    await using db = createClient(database.config)
    let write: Promise<unknown> | undefined
    let pragma: Promise<unknown> | undefined
    await db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      write = db.execute('insert into t values (2)')
      pragma = db.execute('pragma table_info(t)')
      await pause(500)
    })
    await Promise.all([write, pragma])
    expect((await direct.execute('select a from t order by a')).rows).toEqual([{ a: 1 }, { a: 2 }])
  })

  test('a write that is not awaited there takes effect behind the transaction', async () => {
    await using db = createClient(database.config)
    let behind: Promise<unknown> | undefined
    await db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      behind = db.execute('insert into t values (2)')
      for (const a of [3, 4, 5]) {
        await pause(30)
        await tx.execute('insert into t values (?)', [a])
      }
    })
    await behind
    expect((await direct.execute('select a from t')).rows.map(({ a }) => a)).toEqual([1, 3, 4, 5, 2])
  })

  test('a read, and a transaction of another client, do not wait for it', async () => {
    await using db = createClient(database.config)
    await db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      await db.transaction((read) => read.execute('select count(*) from t'), { mode: 'readonly' })
      await direct.execute('select count(*) from t')
    })
  })
})
