import { createClient, readRows } from '@batonsql/core'
import { afterAll, describe, expect, test } from 'vitest'
import { openTestServer } from '../../targets/test-server.ts'

const server = await openTestServer()
const database = await server.createDatabase()
const count = (n: number): string =>
  `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${n}) select i, 'row ' || i as name from n`

describe.each([
  ['the platform', {}],
  ['a fetch', { fetch: (url: string, init: RequestInit) => fetch(url, init) }],
])('over %s', (_, config) => {
  const db = createClient({ ...database.config, ...config })
  afterAll(() => db.close())
  let before = 0
  const cost = (): number => database.requestCount() - before

  test('gives every row, for two requests', async () => {
    before = database.requestCount()
    let sum = 0
    for await (const { i, name } of readRows<{ i: number; name: string }>(db, count(5_000))) {
      expect(name).toBe(`row ${i}`)
      sum += i
    }
    expect(sum).toBe(12_502_500)
    expect(cost()).toBe(2)
  })

  test('reads more than a buffered answer may hold', { timeout: 60_000 }, async () => {
    const large =
      'with recursive n(i) as (select 1 union all select i + 1 from n where i < 150) select i, hex(zeroblob(50000)) as x from n'
    let rows = 0
    for await (const row of readRows(db, large)) {
      expect((row['x'] as string).length).toBe(100_000)
      rows += 1
    }
    expect(rows).toBe(150)
  })

  test('arguments, arrays, no rows', async () => {
    const rows = []
    for await (const row of readRows(db, 'select ? as a, ?2 as a', [1, 2n ** 60n], { rowMode: 'array' }))
      rows.push(row)
    expect(rows).toEqual([[1, 2n ** 60n]])
    for await (const row of readRows(db, 'select 1 where 0')) expect.unreachable(JSON.stringify(row))
  })

  test('leaving early ends the statement and the stream', async () => {
    before = database.requestCount()
    for await (const { i } of readRows<{ i: number }>(db, count(2_000_000))) if (i === 3) break
    expect(cost()).toBe(2)
    expect((await db.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
  })

  test('leaving early inside a transaction ends the statement, and the transaction goes on', async () => {
    await db.batch(['drop table if exists kept', 'create table kept (a)'])
    await db.transaction(async (tx) => {
      await tx.execute('insert into kept values (1)')
      for await (const { i } of readRows<{ i: number }>(tx, count(2_000_000))) if (i === 3) break
      await tx.execute('insert into kept values (2)')
      for await (const row of readRows(tx, 'insert into kept values (3), (4), (5) returning a'))
        if (row) break
    })
    expect((await db.execute('select a from kept')).rows.map((row) => row['a'])).toEqual([1, 2, 3, 4, 5])
  })

  test('leaving the rows of a statement that changes something reads it to its end', async () => {
    await db.batch(['drop table if exists left_early', 'create table left_early (a)'])
    const many = `insert into left_early ${count(20_000).replace(", 'row ' || i as name", '')} returning a`
    for (let round = 0; round < 5; round++) {
      for await (const row of readRows(db, many)) if (row) break
      expect((await db.execute('select count(*) as n from left_early')).rows).toEqual([
        { n: 20_000 * (round + 1) },
      ])
    }
    const mine = new Error('mine')
    const given = (async () => {
      for await (const row of readRows(db, many)) if (row) throw mine
    })()
    await expect(given).rejects.toBe(mine)
    expect((await db.execute('select count(*) as n from left_early')).rows).toEqual([{ n: 120_000 }])
  })

  test('errors: text that does not parse, a missing table, a failure in the middle', async () => {
    const read = async (sql: string): Promise<number> => {
      let rows = 0
      for await (const row of readRows(db, sql)) rows += row ? 1 : 0
      return rows
    }
    await expect(read('selec')).rejects.toMatchObject({
      name: 'SqlError',
      code: 'SQL_PARSE_ERROR',
      sql: 'selec',
    })
    await expect(read('select * from missing')).rejects.toMatchObject({
      name: 'SqlError',
      code: 'SQLITE_UNKNOWN',
    })
    await expect(
      read("select json(case when i = 3 then '{' else '1' end) as j from (" + count(5) + ')'),
    ).rejects.toMatchObject({ name: 'SqlError' })
    await expect(read('begin')).rejects.toThrow(TypeError)
  })

  test('an abort ends it with the reason', async () => {
    const controller = new AbortController()
    const reason = new Error('mine')
    const read = (async () => {
      for await (const { i } of readRows<{ i: number }>(db, count(3_000_000), [], {
        signal: controller.signal,
      }))
        if (i === 5) controller.abort(reason)
    })()
    await expect(read).rejects.toBe(reason)
  })

  test('inside a transaction it sees what was written, and the transaction goes on', async () => {
    await db.batch(['drop table if exists c', 'create table c (a)'])
    await db.transaction(async (tx) => {
      await tx.execute('insert into c values (1), (2), (3)')
      before = database.requestCount()
      const seen = []
      for await (const { a } of readRows(tx, 'select a from c order by a')) seen.push(a)
      expect([seen, cost()]).toEqual([[1, 2, 3], 1])
      for await (const { a } of readRows(tx, 'select a from c')) if (a === 2) break
      await tx.execute('insert into c values (4)')
    })
    expect((await db.execute('select count(*) as n from c')).rows).toEqual([{ n: 4 }])
  })

  test('as the first statement of a transaction', async () => {
    await db.transaction(async (tx) => {
      for await (const row of readRows(tx, 'select 1 as a')) expect(row).toEqual({ a: 1 })
    })
  })

  test('a statement in the loop over the rows is refused: it would wait for the loop, and the loop for it', async () => {
    await db.transaction(async (tx) => {
      for await (const { i } of readRows<{ i: number }>(tx, count(100))) {
        if (i !== 1) continue
        await expect(tx.execute('select 1')).rejects.toThrow(TypeError)
        await expect(tx.batch(['select 1'])).rejects.toThrow(/rows are being read/)
        await expect(readRows(tx, 'select 1').next()).rejects.toThrow(TypeError)
      }
      expect((await tx.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
    })
  })

  test('an iterator that was left lying about does not keep the transaction from ending', async () => {
    await db.batch(['drop table if exists c', 'create table c (a)'])
    const mine = new Error('mine')
    const given = db.transaction(async (tx) => {
      await tx.execute('insert into c values (1)')
      await readRows(tx, count(1_000_000)).next()
      throw mine
    })
    await expect(given).rejects.toBe(mine)
    const unfinished = db.transaction(async (tx) => {
      await tx.execute('insert into c values (2)')
      await readRows(tx, count(1_000_000)).next()
    })
    await expect(unfinished).rejects.toThrow(/rows are being read/)
    const started = Date.now()
    await db.execute('insert into c values (3)')
    expect(Date.now() - started).toBeLessThan(3_000)
    expect((await db.execute('select a from c')).rows).toEqual([{ a: 3 }])
  })

  test('an abort or a bad deadline that is there before it begins does not touch the transaction', async () => {
    await db.transaction(async (tx) => {
      await tx.execute('select 1')
      const reason = new Error('changed my mind')
      await expect(readRows(tx, 'select 1', [], { signal: AbortSignal.abort(reason) }).next()).rejects.toBe(
        reason,
      )
      await expect(readRows(tx, 'select 1', [], { timeoutMs: 0 }).next()).rejects.toThrow(TypeError)
      expect((await tx.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
    })
  })

  test('after the transaction was lost it does not read outside of it', async () => {
    await db.batch(['drop table if exists c', 'create table c (a unique)', 'insert into c values (1)'])
    const given = db.transaction(async (tx) => {
      await tx.execute('insert into c values (2)')
      await tx.execute('insert or rollback into c values (1)').catch(() => {})
      for await (const row of readRows(tx, 'select a from c')) expect.unreachable(JSON.stringify(row))
    })
    await expect(given).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  })
})
