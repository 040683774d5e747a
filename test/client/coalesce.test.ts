import { type ClientEvent, coalesce, createClient, SqlError } from '@batonsql/core'
import { beforeEach, expect, test } from 'vitest'
import { openTestClient } from '../support/test-server.ts'

const events: ClientEvent[] = []
const { database, db } = await openTestClient({ coalesce, observe: (event) => events.push(event) })
beforeEach(async () => {
  await db.batch(['drop table if exists t', 'create table t (id integer primary key, a unique)'])
  events.length = 0
})
const countRequests = (): number => events.filter(({ type }) => type === 'request').length

test('statements in one request each have their own result', async () => {
  const [first, selected, second, changed, none] = await Promise.all([
    db.execute('insert into t (a) values (?)', ['x']),
    db.execute('select typeof(?) as type', [2n ** 53n + 1n]),
    db.execute('insert into t values (41, :a)', { a: new Uint8Array() }),
    db.execute('update t set a = 2 where id = 41'),
    db.execute('select * from t where id = 0', [], { rowMode: 'array' }),
  ])
  expect(first.lastInsertRowid).toBe(1n)
  expect(selected.rows).toEqual([{ type: 'integer' }])
  expect(second.lastInsertRowid).toBe(41n)
  expect(changed).toMatchObject({ rowsAffected: 1, lastInsertRowid: null })
  expect(none.rows).toEqual([])
  // one request for the reads, and one for the writes
  expect(countRequests()).toBe(2)
})

test('a failing statement does not affect the others', async () => {
  const settled = await Promise.allSettled([
    db.execute("insert into t (a) values ('x')"),
    db.execute("insert into t (a) values ('x')"),
    db.execute('this is no SQL'),
    db.execute('select ?1, ?2', ['too few']),
    db.execute("insert into t (a) values ('y')"),
  ])
  expect(settled.map((result) => result.status)).toEqual([
    'fulfilled',
    'rejected',
    'rejected',
    'rejected',
    'fulfilled',
  ])
  const reasons = settled.flatMap((result) =>
    result.status === 'rejected' ? [result.reason as SqlError] : [],
  )
  for (const reason of reasons) expect(reason).toBeInstanceOf(SqlError)
  expect(reasons[0]).toMatchObject({ code: 'SQLITE_CONSTRAINT', sql: "insert into t (a) values ('x')" })
  expect(reasons[1]?.stack).toContain('SQL: this is no SQL\n')
  expect((await db.execute('select a from t order by id')).rows).toEqual([{ a: 'x' }, { a: 'y' }])
})

test('a thousand statements at once are sent 16 per request, and all are applied', async () => {
  await Promise.all(
    Array.from({ length: 1_000 }, (_, index) => db.execute('insert into t (a) values (?)', [index])),
  )
  expect(countRequests()).toBe(Math.ceil(1_000 / 16))
  expect((await db.execute('select count(*) as n, sum(a) as sum from t')).rows).toEqual([
    { n: 1_000, sum: 499_500 },
  ])
})

test.each(['pragma foreign_keys = off', 'create temp table t (a)', 'pragma query_only = on'])(
  '%s does not affect the statements in the same request',
  async (sql) => {
    await db.execute('create table if not exists child (a references t (id))')
    const settled = await Promise.allSettled([
      db.execute("insert into t (a) values ('before')"),
      db.execute(sql),
      db.execute("insert into t (a) values ('after')"),
      db.execute('insert into child values (99)'),
    ])
    expect(settled[0].status).toBe('fulfilled')
    expect(settled[2].status).toBe('fulfilled')
    const plainDb = createClient(database.config)
    const separately = await Promise.allSettled([
      plainDb.execute('insert into child values (99)'),
      plainDb.execute("select a from t where a in ('before', 'after') order by id"),
    ])
    expect(settled[3].status).toBe(separately[0].status)
    expect(separately[1]).toMatchObject({ value: { rows: [{ a: 'before' }, { a: 'after' }] } })
    await plainDb.close()
    await db.execute('drop table child')
  },
)

test('a read that a transaction awaits does not wait for a write from the same tick', async () => {
  let write: Promise<unknown> | undefined
  await db.transaction(async (tx) => {
    await tx.execute("insert into t (a) values ('inside')")
    // the write waits for the lock of the transaction, and the transaction for the read
    write = db.execute("insert into t (a) values ('beside')")
    expect((await db.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
    await tx.execute("insert into t (a) values ('after')")
  })
  await write
  expect((await db.execute('select a from t order by id')).rows).toEqual([
    { a: 'inside' },
    { a: 'after' },
    { a: 'beside' },
  ])
})

test('only the statement whose result cannot be encoded as JSON fails', async () => {
  const notUtf8 = "cast(x'ff' as text)"
  const reads = await Promise.allSettled(
    ['select 1', `select ${notUtf8}`, 'select 2'].map((sql) => db.execute(sql)),
  )
  expect(reads).toMatchObject([
    { status: 'fulfilled' },
    { reason: { status: 500, outcome: 'not_applied' } },
    { status: 'fulfilled' },
  ])
  const writes = await Promise.allSettled(
    [
      "insert into t (a) values ('before')",
      `insert into t (a) values ('bad') returning ${notUtf8}`,
      "insert into t (a) values ('after')",
    ].map((sql) => db.execute(sql)),
  )
  expect(writes).toMatchObject([
    { status: 'fulfilled' },
    { reason: { status: 500, outcome: 'unknown' } },
    { status: 'fulfilled' },
  ])
  expect((await db.execute('select a from t order by a')).rows).toEqual([
    { a: 'after' },
    { a: 'bad' },
    { a: 'before' },
  ])
})

test('a read is retried even if another call in its request was aborted after it was sent', async () => {
  const controller = new AbortController()
  let requests = 0
  await using client = createClient({
    ...database.config,
    coalesce,
    fetch: (url, init) => {
      requests += 1
      if (requests === 1) controller.abort(new Error('no longer wanted'))
      return fetch(url, init)
    },
  })
  const { signal } = controller
  const settled = await Promise.allSettled([
    client.execute("select cast(x'ff' as text)", [], { signal }),
    client.execute('select 1 as a'),
  ])
  expect(settled).toMatchObject([
    { reason: { message: 'no longer wanted' } },
    { value: { rows: [{ a: 1 }] } },
  ])
  expect(requests).toBe(2)
})
