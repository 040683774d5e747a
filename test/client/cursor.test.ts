import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createClient, executeMultiple, readRows } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { afterAll, describe, expect, test } from 'vitest'
import { collect, ENDLESS_READ } from '../support/fixtures.ts'
import { expectNoStall } from '../support/no-stall.ts'
import { openTestServer } from '../support/test-server.ts'

const server = await openTestServer()
const database = await server.createDatabase()
const selectNumbers = (n: number): string =>
  `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${n}) select i, 'row ' || i as name from n`

describe.each([
  ['the default transport', {}],
  ['a custom fetch', { fetch: (url: string, init: RequestInit) => fetch(url, init) }],
])('over %s', (_, config) => {
  const db = createClient({ ...database.config, ...config })
  afterAll(() => db.close())
  let before = 0
  const countRequests = (): number => database.requestCount() - before
  const count = async (table: string): Promise<unknown> =>
    (await db.execute(`select count(*) as n from ${table}`)).rows[0]?.['n']

  test('yields every row, with two requests', async () => {
    before = database.requestCount()
    let sum = 0
    for await (const { i, name } of readRows<{ i: number; name: string }>(db, selectNumbers(5_000))) {
      expect(name).toBe(`row ${i}`)
      sum += i
    }
    expect(sum).toBe(12_502_500)
    expect(countRequests()).toBe(2)
  })

  test('reads more than fits in a buffered response', async () => {
    const largeQuery =
      'with recursive n(i) as (select 1 union all select i + 1 from n where i < 150) select i, hex(zeroblob(50000)) as x from n'
    let rows = 0
    for await (const row of readRows(db, largeQuery)) {
      expect((row['x'] as string).length).toBe(100_000)
      rows += 1
    }
    expect(rows).toBe(150)
  })

  test('accepts arguments, returns rows as arrays, and handles empty results', async () => {
    const rows = []
    for await (const row of readRows(db, 'select ? as a, ?2 as a', [1, 2n ** 60n], { rowMode: 'array' }))
      rows.push(row)
    expect(rows).toEqual([[1, 2n ** 60n]])
    for await (const row of readRows(db, 'select 1 where 0')) expect.unreachable(JSON.stringify(row))
  })

  test('reports the columns before the first row; an error of the callback leaves the loop', async () => {
    const reported: unknown[] = []
    for (const sql of [
      'select 1 as a, 2 as "a"',
      'select 3 as b where 0',
      'create table if not exists c (a)',
    ])
      for await (const row of readRows(db, sql, [], { onColumns: (names) => reported.push(names) }))
        reported.push(row)
    expect(reported).toEqual([['a', 'a'], { a: 2 }, ['b'], []])
    const reason = new RangeError('own error')
    const onColumns = (): never => {
      throw reason
    }
    await expect(readRows(db, selectNumbers(2_000_000), [], { onColumns }).next()).rejects.toBe(reason)
    const result = await db.transaction(async (tx) => {
      await expect(readRows(tx, selectNumbers(2_000_000), [], { onColumns }).next()).rejects.toBe(reason)
      return await tx.execute('select 1 as a')
    })
    expect(result.rows).toEqual([{ a: 1 }])
  })

  test('leaving the loop early ends the statement and the stream', async () => {
    before = database.requestCount()
    for await (const { i } of readRows<{ i: number }>(db, selectNumbers(2_000_000))) if (i === 3) break
    expect(countRequests()).toBe(2)
    expect((await db.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
  })

  test('leaving the loop early inside a transaction ends the statement, and the transaction continues', async () => {
    await db.batch(['drop table if exists kept', 'create table kept (a)'])
    await db.transaction(async (tx) => {
      await tx.execute('insert into kept values (1)')
      for await (const { i } of readRows<{ i: number }>(tx, selectNumbers(2_000_000))) if (i === 3) break
      await tx.execute('insert into kept values (2)')
      for await (const row of readRows(tx, 'insert into kept values (3), (4), (5) returning a'))
        if (row) break
    })
    expect((await db.execute('select a from kept')).rows.map((row) => row['a'])).toEqual([1, 2, 3, 4, 5])
  })

  test('a write is executed completely, even if the loop over its rows is left early', async () => {
    await db.batch(['drop table if exists left_early', 'create table left_early (a)'])
    const manyInserts = `insert into left_early ${selectNumbers(20_000).replace(", 'row ' || i as name", '')} returning a`
    for (let round = 0; round < 5; round++) {
      for await (const row of readRows(db, manyInserts)) if (row) break
      expect(await count('left_early')).toBe(20_000 * (round + 1))
    }
    const ownError = new Error('own error')
    const reading = (async () => {
      for await (const row of readRows(db, manyInserts)) if (row) throw ownError
    })()
    await expect(reading).rejects.toBe(ownError)
    expect(await count('left_early')).toBe(120_000)
  })

  test('throw() of the iterator, which a failing pipeline() calls, leaves the loop early, too', async () => {
    await db.batch(['drop table if exists thrown', 'create table thrown (a)'])
    const ownError = new Error('own error')
    const failing = new Writable({ objectMode: true, write: (_chunk, _encoding, fail) => fail(ownError) })
    const manyInserts = `insert into thrown ${selectNumbers(20_000).replace(", 'row ' || i as name", '')} returning a`
    await db.transaction(async (tx) => {
      const rows = Readable.from(readRows(tx, selectNumbers(2_000_000)))
      await expect(pipeline(rows, failing)).rejects.toBe(ownError)
      for (const executor of [tx, db]) {
        const iterator = readRows(executor, executor === db ? selectNumbers(2_000_000) : manyInserts)
        await iterator.next()
        await expect(iterator.throw(ownError)).rejects.toBe(ownError)
        expect(await iterator.next()).toEqual({ done: true, value: undefined })
      }
      await tx.execute('insert into thrown values (0)')
    })
    expect(await count('thrown')).toBe(20_001)
  })

  test('rejects for invalid SQL, a missing table, and a failure after some rows', async () => {
    const read = async (sql: string): Promise<number> => {
      let rows = 0
      for await (const row of readRows(db, sql)) rows += row ? 1 : 0
      return rows
    }
    const name = 'SqlError'
    await expect(read('selec')).rejects.toMatchObject({ name, code: 'SQL_PARSE_ERROR', sql: 'selec' })
    await expect(read('select * from missing')).rejects.toMatchObject({ name, code: 'SQLITE_UNKNOWN' })
    const failingAtThird = `select json(case when i = 3 then '{' else '1' end) as j from (${selectNumbers(5)})`
    await expect(read(failingAtThird)).rejects.toMatchObject({ name })
    await expect(read('begin')).rejects.toThrow(TypeError)
  })

  test('an abort rejects the loop with the reason', async () => {
    const controller = new AbortController()
    const reason = new Error('own error')
    const { signal } = controller
    const rows = readRows<{ i: number }>(db, selectNumbers(3_000_000), [], { signal })
    const read = (async () => {
      for await (const { i } of rows) if (i === 5) controller.abort(reason)
    })()
    await expect(read).rejects.toBe(reason)
  })

  test('sees earlier writes of its transaction, which continues afterwards', async () => {
    await db.batch(['drop table if exists c', 'create table c (a)'])
    await db.transaction(async (tx) => {
      await tx.execute('insert into c values (1), (2), (3)')
      before = database.requestCount()
      const values = []
      for await (const { a } of readRows(tx, 'select a from c order by a')) values.push(a)
      expect([values, countRequests()]).toEqual([[1, 2, 3], 2])
      for await (const { a } of readRows(tx, 'select a from c')) if (a === 2) break
      await tx.execute('insert into c values (4)')
    })
    expect(await count('c')).toBe(4)
  })

  // in one of these, a semicolon is followed by a second statement; the last one does not exist
  test.each(['unparsable', 'select 1; select 2', '-- nothing', 'create trigger x', 'select a from missing'])(
    'leaves its transaction, and a stream, as they were if the statement is rejected: %s',
    async (sql) => {
      const read = async (handle: Parameters<typeof readRows>[0]): Promise<void> => {
        for await (const _ of readRows(handle, sql)) throw new Error('a row')
      }
      const rejection = { name: 'SqlError', outcome: 'not_applied', sql }
      await db.batch(['drop table if exists c', 'create table c (a)'])
      for (const isFirst of [true, false])
        await db.transaction(async (tx) => {
          if (!isFirst) await tx.execute('insert into c values (1)')
          await expect(read(tx)).rejects.toMatchObject(rejection)
          await tx.savepoint(async (inner) => {
            await expect(read(inner)).rejects.toMatchObject(rejection)
            await inner.execute('insert into c values (2)')
          })
        })
      expect(await count('c')).toBe(3)
      const stream = openStream(db)
      await stream.execute('select 1')
      await expect(read(stream)).rejects.toMatchObject(rejection)
      await stream.execute('select 1')
      await stream.close()
    },
  )

  test('works as the first statement of a transaction', async () => {
    await db.transaction(async (tx) => {
      for await (const row of readRows(tx, 'select 1 as a')) expect(row).toEqual({ a: 1 })
    })
  })

  test('rejects a statement inside the loop over the rows, because the two would wait for each other', async () => {
    await db.transaction(async (tx) => {
      for await (const { i } of readRows<{ i: number }>(tx, selectNumbers(100))) {
        if (i !== 1) continue
        await expect(tx.execute('select 1')).rejects.toThrow(TypeError)
        await expect(tx.batch(['select 1'])).rejects.toThrow(/rows are being read/)
        await expect(readRows(tx, 'select 1').next()).rejects.toThrow(TypeError)
      }
      expect((await tx.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
    })
  })

  test('an abandoned iterator does not prevent the transaction from ending', async () => {
    await db.batch(['drop table if exists c', 'create table c (a)'])
    const ownError = new Error('own error')
    const transaction = db.transaction(async (tx) => {
      await tx.execute('insert into c values (1)')
      await readRows(tx, selectNumbers(1_000_000)).next()
      throw ownError
    })
    await expect(transaction).rejects.toBe(ownError)
    const unfinished = db.transaction(async (tx) => {
      await tx.execute('insert into c values (2)')
      await readRows(tx, selectNumbers(1_000_000)).next()
    })
    await expect(unfinished).rejects.toThrow(/rows were being read/)
    await expectNoStall(() => db.execute('insert into c values (3)'))
    expect((await db.execute('select a from c')).rows).toEqual([{ a: 3 }])
  })

  test('a cursor with an aborted signal or an invalid timeout does not affect the transaction', async () => {
    await db.transaction(async (tx) => {
      await tx.execute('select 1')
      const reason = new Error('changed my mind')
      const aborted = readRows(tx, 'select 1', [], { signal: AbortSignal.abort(reason) })
      await expect(aborted.next()).rejects.toBe(reason)
      expect(() => readRows(tx, 'select 1', [], { timeoutMs: 0 })).toThrow(TypeError)
      expect((await tx.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
    })
  })

  test('does not read outside the transaction after the transaction was lost', async () => {
    await db.batch(['drop table if exists c', 'create table c (a unique)', 'insert into c values (1)'])
    const transaction = db.transaction(async (tx) => {
      await tx.execute('insert into c values (2)')
      await tx.execute('insert or rollback into c values (1)').catch(() => {})
      for await (const row of readRows(tx, 'select a from c')) expect.unreachable(JSON.stringify(row))
    })
    await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  })
})

describe('a cursor that is queued with other statements of a transaction', () => {
  const db = createClient(database.config)
  afterAll(() => db.close())
  const createTable = async (): Promise<void> => {
    await db.batch(['drop table if exists beside', 'create table beside (a unique)'])
  }

  test.each([
    ['after a write, as the first calls', ['write', 'rows']],
    ['before a write', ['rows', 'write']],
    ['between others', ['rows', 'write', 'rows', 'rows', 'write']],
  ])('%s', async (_, calls) => {
    await createTable()
    let written = 0
    const results = await db.transaction((tx) =>
      Promise.all(
        calls.map((call) =>
          call === 'write'
            ? tx.execute('insert into beside values (?)', [written++]).then(() => 'written')
            : collect(readRows(tx, 'select count(*) as n from beside')),
        ),
      ),
    )
    // each call sees the results of earlier calls
    let before = 0
    expect(results).toEqual(calls.map((call) => (call === 'write' ? (before++, 'written') : [{ n: before }])))
    expect((await db.execute('select count(*) as n from beside')).rows).toEqual([{ n: written }])
  })

  test('works while two other transactions write', async () => {
    await createTable()
    const others = [10, 11].map((a) =>
      db.transaction(async (tx) => {
        await tx.execute('insert into beside values (?)', [a])
        await tx.execute('select 1')
      }),
    )
    await db.transaction((tx) =>
      Promise.all([tx.execute('insert into beside values (1)'), collect(readRows(tx, 'select 1'))]),
    )
    await Promise.all(others)
    const { rows } = await db.execute('select a from beside order by a')
    expect(rows).toEqual([{ a: 1 }, { a: 10 }, { a: 11 }])
  })

  test('a savepoint that is rolled back closes its cursors', async () => {
    await createTable()
    await db.transaction(async (tx) => {
      let rows: Promise<unknown> | undefined
      const failed = tx.savepoint(async (inner) => {
        void inner.execute('insert into beside values (1)').catch(() => {})
        rows = collect(readRows(inner, 'select a from beside'))
        rows.catch(() => {})
        throw new Error('own error')
      })
      await expect(failed).rejects.toThrow('own error')
      await expect(rows).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
      await tx.execute('insert into beside values (2)')
    })
    expect((await db.execute('select a from beside')).rows).toEqual([{ a: 2 }])
  })

  test('a cursor that is not awaited makes the transaction fail, whether or not it has begun', async () => {
    await createTable()
    for (const awaitsRow of [false, true]) {
      const transaction = db.transaction(async (tx) => {
        await tx.execute('insert into beside values (1)')
        const rows = readRows(tx, selectNumbers(100_000))
        const first = rows.next()
        first.catch(() => {})
        if (awaitsRow) await first
      })
      await expect(transaction).rejects.toThrow(/missing await/)
    }
    expect((await db.execute('select a from beside')).rows).toEqual([])
  })
})

test.each([0, 1, 2, 3])(
  'a cursor of a transaction that is aborted before its first row, %i ms after it was opened, does not block other writers',
  async (ms) => {
    await using db = createClient(database.config)
    await using other = createClient(database.config)
    await db.batch(['drop table if exists aborted', 'create table aborted (a)'])
    for (let index = 0; index < 5; index++) {
      const controller = new AbortController()
      const transaction = db.transaction(async (tx) => {
        await tx.execute('insert into aborted values (1)')
        setTimeout(() => controller.abort(new Error('aborted')), ms)
        for await (const _ of readRows(tx, ENDLESS_READ, [], { signal: controller.signal }));
      })
      await expect(transaction).rejects.toThrow('aborted')
      await expectNoStall(() => other.execute('insert into aborted values (2)'))
    }
    expect((await db.execute('select distinct a from aborted')).rows).toEqual([{ a: 2 }])
  },
)

test('a savepoint in the loop over the rows of its transaction is rejected, like a statement', async () => {
  await using db = createClient(database.config)
  await db.transaction(async (tx) => {
    for await (const _ of readRows(tx, 'select 1 union select 2'))
      await expect(tx.savepoint((inner) => inner.execute('select 1'))).rejects.toThrow('rows are being read')
  })
  await db.transaction(async (tx) => {
    const rows = readRows(tx, 'select 1 union select 2')
    await rows.next()
    await rows.return()
    await tx.savepoint((inner) => inner.execute('select 1'))
  })
})

test('a cursor of a write outside a transaction has an unknown outcome when its client is closed', async () => {
  await using direct = createClient(database.config)
  await direct.batch(['drop table if exists closed', 'create table closed (a)'])
  const db = createClient(database.config)
  const rows = readRows(db, 'insert into closed values (1), (2) returning a')
  await rows.next()
  await db.close()
  await expect(rows.next()).rejects.toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
  await using stream = openStream(direct)
  const others = readRows(stream, 'insert into closed values (3), (4) returning a')
  await others.next()
  await stream.close()
  await expect(others.next()).rejects.toMatchObject({ outcome: 'unknown' })
})

test('the signal and the time limit end a loop, and a script, whose stream the server does not close', async () => {
  const ignoreClose = (url: string, init: RequestInit): Promise<Response> =>
    (init.body as string).includes('"type":"close"') ? new Promise(() => {}) : fetch(url, init)
  await using client = createClient({ ...database.config, fetch: ignoreClose, requestTimeoutMs: Infinity })
  expect(await collect(readRows(client, 'select 1 as a', [], { timeoutMs: 1_000 }))).toEqual([{ a: 1 }])
  await executeMultiple(client, 'select 1; select 2', { timeoutMs: 1_000 })
  const controller = new AbortController()
  const { signal } = controller
  const rows = readRows(client, 'select 1 as a', [], { signal })
  await rows.next()
  const ends = Promise.allSettled([rows.next(), executeMultiple(client, 'select 1; select 2', { signal })])
  setTimeout(() => controller.abort(), 20)
  await ends
})

test('a missing token for the cursor does not affect the transaction', async () => {
  let tokenFails = false
  const authToken = () => {
    if (tokenFails) throw new Error('no token')
    return database.authToken ?? ''
  }
  await using db = createClient({ ...database.config, authToken })
  await db.transaction(async (tx) => {
    await tx.execute('select 1')
    tokenFails = true
    await expect(readRows(tx, 'select 1').next()).rejects.toThrow('no token')
    tokenFails = false
    await tx.execute('select 2')
  })
})
