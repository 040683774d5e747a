import { channel } from 'node:diagnostics_channel'
import {
  type ClientEvent,
  createClient,
  describe,
  dump,
  executeMultiple,
  readRows,
  type Transaction,
} from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { beforeEach, expect, test, vi } from 'vitest'
import { collect } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

const events: ClientEvent[] = []
const observe = (event: ClientEvent) => events.push(event)
const { database, db } = await openTestClient({ observe })
const withObserver = { ...database.config, observe }
beforeEach(async () => {
  await db.batch(['drop table if exists t', 'create table t (a unique)'])
  events.length = 0
})
const getEventTypes = (pattern = /./): string[] =>
  events.map(({ type }) => type).filter((type) => pattern.test(type))
const SECRET_ARGUMENT = 'an argument that must stay secret'

test('reports the beginning and the end of a statement', async () => {
  await db.execute('insert into t values (?)', [SECRET_ARGUMENT])
  const number = expect.any(Number)
  const request = {
    type: 'request',
    method: 'POST',
    path: expect.stringMatching(/\/v2\/pipeline$/),
    status: 200,
  }
  const sql = ['insert into t values (?)']
  expect(events).toEqual([
    { type: 'query:start', id: number, sql, inTransaction: false, transaction: null },
    { ...request, requestBytes: number, responseBytes: number, durationMs: number },
    { type: 'query:end', id: number, durationMs: number, rows: 0, rowsRead: number, rowsWritten: number },
  ])
  const [start, sent, end] = events as [
    ClientEvent & { id: number },
    ClientEvent & { requestBytes: number; responseBytes: number },
    ClientEvent & { id: number; durationMs: number },
  ]
  expect(start.id).toBe(end.id)
  expect(sent.requestBytes).toBeGreaterThan(SECRET_ARGUMENT.length)
  expect(sent.responseBytes).toBeGreaterThan(50)
  expect(end.durationMs).toBeGreaterThan(0)
})

test('reports a batch with the rows of all of its statements', async () => {
  await db.batch([
    'insert into t values (1)',
    'insert into t values (2)',
    'select a from t',
    'select a from t',
  ])
  expect(getEventTypes()).toEqual(['query:start', 'request', 'query:end'])
  expect(events[0]).toMatchObject({ sql: { length: 4 } })
  expect(events[2]).toMatchObject({ rows: 4 })
})

test('reports the same error that the caller receives', async () => {
  await db.execute('insert into t values (1)')
  events.length = 0
  const error: unknown = await db.execute('insert into t values (1)').catch((reason: unknown) => reason)
  expect(getEventTypes()).toEqual(['query:start', 'request', 'query:error'])
  expect(events[2]).toMatchObject({ error })
})

test('reports statements and batches that are rejected before they are sent', async () => {
  await expect(db.batch(['pragma foreign_keys = off'])).rejects.toBeInstanceOf(TypeError)
  expect(getEventTypes()).toEqual(['query:start', 'query:error'])
  const closed = createClient(withObserver)
  await closed.close()
  for (const run of [() => closed.execute('select 1'), () => closed.batch(['select 1'])]) {
    events.length = 0
    const error: unknown = await run().catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'CLOSED' })
    expect(events).toMatchObject([{ type: 'query:start' }, { type: 'query:error', error }])
  }
  await expect(closed.batch([])).rejects.toMatchObject({ code: 'CLOSED' })
  for (const [client, options, expected] of [
    [closed, {}, expect.objectContaining({ code: 'CLOSED' })],
    [db, { signal: AbortSignal.abort('enough') }, 'enough'],
  ] as const)
    for (const run of [
      () => client.execute('select 1', [], options),
      () => readRows(client, 'select 1', [], options).next(),
      () => readRows(openStream(client), 'select 1', [], options).next(),
    ]) {
      events.length = 0
      const error: unknown = await run().catch((reason: unknown) => reason)
      expect(error).toEqual(expected)
      expect(events).toMatchObject([{ type: 'query:start' }, { type: 'query:error', error }])
    }
})

test('reports transactions that commit, roll back, or send nothing', async () => {
  await db.transaction((tx) => tx.execute('insert into t values (1)'))
  const query = ['query:start', 'request', 'query:end']
  expect(getEventTypes()).toEqual(['transaction:begin', ...query, 'request', 'transaction:commit'])
  const { id } = events[0] as { id: number }
  expect(events[1]).toMatchObject({ inTransaction: true, transaction: id })
  expect(events[5]).toMatchObject({ id })
  events.length = 0
  const aborted = db.transaction(async (tx) => {
    await tx.execute('insert into t values (2)')
    throw new Error('aborted')
  })
  await expect(aborted).rejects.toThrow('aborted')
  expect(getEventTypes(/^transaction/)).toEqual(['transaction:begin', 'transaction:rollback'])
  events.length = 0
  await db.transaction(() => {})
  expect(getEventTypes()).toEqual(['transaction:begin', 'transaction:commit'])
})

test('reports cursors inside and outside a transaction', async () => {
  await db.transaction(async (tx) => {
    await tx.execute('select 0')
    for await (const _ of readRows(tx, 'select 1')) break
    for await (const _ of readRows(db, 'select 2')) break
  })
  const { id } = events[0] as { id: number }
  expect(events.filter(({ type }) => type === 'query:start')).toMatchObject([
    { sql: ['select 0'], inTransaction: true, transaction: id },
    { sql: ['select 1'], inTransaction: true, transaction: id },
    { sql: ['select 2'], inTransaction: false, transaction: null },
  ])
})

test('reports a transaction that is lost, and one that is retried', async () => {
  let runs = 0
  await db.transaction(
    async (tx) => {
      runs += 1
      await tx.execute('insert into t values (1)')
      if (runs === 1) await tx.execute('insert or rollback into t values (1)').catch(() => {})
      await tx.execute('insert into t values (2)').catch(() => {})
    },
    { maxRetries: 1 },
  )
  const [begin, lost, commit] = ['transaction:begin', 'transaction:lost', 'transaction:commit']
  expect(getEventTypes(/^transaction|retry/)).toEqual([begin, lost, 'retry', begin, commit])
  const retry = events.find(({ type }) => type === 'retry')
  expect(retry).toMatchObject({
    attempt: 1,
    delayMs: expect.any(Number),
    error: { code: 'TRANSACTION_LOST' },
  })
})

test('reports a transaction that is about to expire', async () => {
  await using clientWithTimeout = createClient({ ...withObserver, transactionTimeoutMs: 200 })
  const transaction = clientWithTimeout.transaction(async (tx) => {
    await tx.execute('insert into t values (1)')
    await expect.poll(() => getEventTypes()).toContain('transaction:lost')
  })
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
  expect(getEventTypes(/expiring|lost/)).toEqual(['transaction:expiring', 'transaction:lost'])
  const warning = events.find((event) => event.type === 'transaction:expiring')
  expect(warning).toMatchObject({ remainingMs: expect.any(Number) })
  expect((warning as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(41)
})

const INSERT = 'insert into t values (3)'
test.each<[reason: string, mode: 'deferred' | 'readonly', work: (tx: Transaction) => Promise<unknown>]>([
  ['a write was refused the lock', 'deferred', (tx) => tx.execute(INSERT)],
  ['a write in a batch was refused the lock', 'deferred', (tx) => tx.batch(['select 1', INSERT])],
  [
    'a write whose rows are read was refused the lock',
    'deferred',
    (tx) => collect(readRows(tx, `${INSERT} returning a`)),
  ],
  ['a write could not be prepared', 'deferred', (tx) => tx.execute('insert into nowhere values (1)')],
  ['a pragma was read', 'deferred', (tx) => tx.execute('pragma table_info(t)')],
  ['a pragma was read', 'readonly', (tx) => tx.execute('pragma table_info(t)')],
  ['a write was rejected', 'readonly', (tx) => tx.execute(INSERT)],
])('a transaction without the write lock does not expire: %s, %s', async (_, mode, work) => {
  await using clientWithTimeout = createClient({ ...withObserver, transactionTimeoutMs: 200 })
  const transaction = clientWithTimeout.transaction(
    async (tx) => {
      await tx.execute('select * from t')
      await db.execute('insert into t values (1)')
      await work(tx).catch(() => {})
      // begins later, and expires
      const holder = clientWithTimeout.transaction(async (other) => {
        await other.execute('insert into t values (2)')
        await expect.poll(() => getEventTypes()).toContain('transaction:lost')
      })
      await expect(holder).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
      await tx.execute('select 1')
    },
    { mode },
  )
  await transaction
  expect(getEventTypes(/expiring|lost/)).toEqual(['transaction:expiring', 'transaction:lost'])
})

test('reports the rows read from a cursor, even if the loop is left early', async () => {
  await db.batch(['insert into t values (1)', 'insert into t values (2)', 'insert into t values (3)'])
  events.length = 0
  for await (const row of readRows(db, 'select a from t')) if (row['a'] === 2) break
  expect(events.filter(({ type }) => type.startsWith('query'))).toMatchObject([
    { type: 'query:start', sql: ['select a from t'] },
    { type: 'query:end', rows: 2 },
  ])
})

test('Node’s diagnostics channel receives the same events', async () => {
  const received: unknown[] = []
  const listen = (event: unknown): unknown => received.push(event)
  const baton = channel('baton')
  baton.subscribe(listen)
  await using client = createClient(database.config)
  await client.execute('select 1')
  baton.unsubscribe(listen)
  await client.execute('select 2')
  expect(received).toMatchObject([
    { type: 'query:start', sql: ['select 1'] },
    { type: 'request' },
    { type: 'query:end', rows: 1 },
  ])
})

test.each<[string, () => unknown]>([
  [
    'throws',
    () => {
      throw new Error('observer failed')
    },
  ],
  ['rejects', () => Promise.reject(new Error('observer failed'))],
  ['rejects with an object without a prototype', () => Promise.reject(Object.create(null))],
])('an observer that %s affects neither the call nor the process, and is reported once', async (_, fail) => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const observe = vi.fn(() => fail() as undefined)
  await using client = createClient({ ...database.config, observe })
  expect((await client.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
  expect(observe).toHaveBeenCalledTimes(3)
  await client.execute('select 1')
  expect(warn.mock.calls).toEqual([
    [expect.stringMatching(/^observe failed: (?:Error: observer failed\n +at |\[object Object\]$)/)],
  ])
})

test('no event contains an argument or a token', async () => {
  await using client = createClient({ ...withObserver, authToken: database.authToken ?? 'a-token' })
  await client.execute('select ?', [SECRET_ARGUMENT])
  await client.batch([{ sql: 'insert into t values (?)', args: [SECRET_ARGUMENT] }])
  await client.transaction((tx) => tx.execute('insert into t values (?)', [SECRET_ARGUMENT])).catch(() => {})
  expect(events.length).toBeGreaterThan(8)
  const text = JSON.stringify(events, (_, value: unknown) =>
    value instanceof Error ? `${value.message} ${value.stack}` : value,
  )
  expect(text).not.toContain(SECRET_ARGUMENT)
  expect(text).not.toContain(database.authToken ?? 'a-token')
})

test('the end of a transaction is reported once, however it ends', async () => {
  const getEndEvents = (): string[] => getEventTypes(/^transaction:(?!begin)/)
  await db.execute('create table if not exists child (t references t (a) deferrable initially deferred)')
  await expect(db.transaction((tx) => tx.execute('insert into child values (99)'))).rejects.toThrow()
  expect(getEndEvents()).toEqual(['transaction:rollback'])
  events.length = 0
  const stream = openStream(db)
  stream.begin()
  await stream.execute('insert into t values (1)')
  await stream.close()
  expect(getEndEvents()).toEqual(['transaction:rollback'])
  events.length = 0
  await db.execute('insert into t values (1)')
  const lostTransaction = db.transaction((tx) =>
    tx.execute('insert or rollback into t values (1)').catch(() => {}),
  )
  await expect(lostTransaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  expect(getEndEvents()).toEqual(['transaction:lost'])
  await db.execute('drop table child')
})

const INSERT_NULL = 'insert into t values (null)'
const insertThree = async (tx: Transaction): Promise<void> => {
  for (let i = 0; i < 3; i++) await tx.execute(INSERT_NULL)
}
const insertFiveAtOnce = (tx: Transaction) =>
  Promise.all(Array.from({ length: 5 }, () => tx.execute(INSERT_NULL)))
const OWN_ERROR = new Error('no')
const fail = (): never => {
  throw OWN_ERROR
}
test.each<[string, number, () => Promise<unknown>]>([
  ['a new client', 0, () => createClient(withObserver).close()],
  ['a statement', 1, () => db.execute('select 1')],
  ['an empty batch', 0, async () => expect(await db.batch([])).toEqual([])],
  ['a batch', 1, () => db.batch(['select 1', 'select 2'])],
  ['a batch of a thousand', 1, () => db.batch(Array.from({ length: 1_000 }, () => INSERT_NULL))],
  ['a transaction of three awaited statements', 4, () => db.transaction(insertThree)],
  ['a transaction of five statements at once', 2, () => db.transaction(insertFiveAtOnce)],
  ['an empty transaction', 0, async () => expect(await db.transaction(() => 'done')).toBe('done')],
  ['an empty savepoint', 0, () => db.transaction((tx) => tx.savepoint(() => {}))],
  ['only a rollback', 0, () => db.transaction((tx) => tx.rollback())],
  ['a callback that throws', 0, () => expect(db.transaction(fail)).rejects.toBe(OWN_ERROR)],
  [
    'a transaction of one statement that is rolled back',
    2,
    () => expect(db.transaction((tx) => tx.execute(INSERT).then(fail))).rejects.toBe(OWN_ERROR),
  ],
  [
    'a stream with two statements',
    3,
    async () => {
      await using stream = openStream(db)
      await stream.execute('select 1')
      await stream.execute('select 2')
      await stream.close()
    },
  ],
  ['a description', 1, () => describe(db, 'select 1')],
  ['rows that are all read', 2, () => collect(readRows(db, 'select 1'))],
  [
    'rows left early',
    2,
    async () => {
      for await (const _ of readRows(db, 'select 1 union all select 2')) break
    },
  ],
  ['a rejected cursor', 1, () => collect(readRows(db, 'selec')).catch(() => {})],
  ['a dump', 1, () => collect(dump(db))],
  [
    'a transaction whose first call reads rows',
    3,
    () => db.transaction((tx) => collect(readRows(tx, 'select 1'))),
  ],
  ['a script', 2, () => executeMultiple(db, 'insert into t values (1); insert into t values (2)')],
  ['a script with a transaction', 2, () => executeMultiple(db, 'begin; insert into t values (1); commit')],
  [
    'a script with statements before a transaction',
    3,
    () => executeMultiple(db, 'insert into t values (1); begin; insert into t values (2); commit'),
  ],
])('%s takes %i requests, and emits an event for each', async (_, count, work) => {
  const before = database.requestCount()
  await work()
  expect(database.requestCount() - before).toBe(count)
  const requests = events.filter(({ type }) => type === 'request')
  expect(requests).toHaveLength(count)
  for (const request of requests)
    expect(request).toMatchObject({ status: expect.any(Number), durationMs: expect.any(Number) })
})

test('reports the path and the bytes of a cursor request when its rows have been read', async () => {
  const rows = await collect(readRows(db, "select printf('%.1000c', 'x') as text union all select 1"))
  expect(rows).toHaveLength(2)
  const [cursor] = events.filter((event) => event.type === 'request')
  expect(cursor).toMatchObject({ method: 'POST', path: expect.stringMatching(/\/v3\/cursor$/), status: 200 })
  expect((cursor as { responseBytes: number }).responseBytes).toBeGreaterThan(1_000)
})
