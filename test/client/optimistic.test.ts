import {
  type Client,
  ConflictError,
  createClient,
  type InStatement,
  type OptimisticReader,
  optimistic,
  RealValue,
  SqlError,
  TransportError,
} from '@batonsql/core'
import fc from 'fast-check'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { openFaultyDatabase, runSize } from '../support/faulty-database.ts'
import { readColumn } from '../support/fixtures.ts'
import { SEED } from '../support/random.ts'

const { database, direct, proxy } = await openFaultyDatabase()
const db = createClient({ ...database.config, url: proxy.url })
afterAll(() => db.close())

beforeEach(async () => {
  await direct.batch([
    'drop table if exists wallet',
    'create table wallet (id integer primary key, cents)',
    'insert into wallet values (1, 1000), (2, 0)',
  ])
})

const readWallets = () => readColumn(direct, 'select cents from wallet order by id')
const setCents = (id: number, cents: number) => ({
  sql: 'update wallet set cents = ? where id = ?',
  args: [cents, id],
})
interface Wallet {
  readonly cents: number
}
/** Runs an optimistic transaction, and counts its attempts. */
const run = async (
  callback: (tx: OptimisticReader, attempt: number) => Promise<InStatement[]>,
  options = {},
  client: Client = db,
) => {
  let attempts = 0
  const results = await optimistic(client, (tx) => callback(tx, (attempts += 1)), options)
  return { results, attempts }
}
const readCents = async (tx: OptimisticReader, id: number): Promise<number> =>
  (await tx.execute<Wallet>('select cents from wallet where id = ?', [id])).rows[0]?.cents ?? 0
/** Moves money between the wallets. @param disturb called by each attempt after its reads */
const move = (client: Client, disturb: (attempt: number) => Promise<unknown>, options = {}) =>
  run(
    async (tx, attempt) => {
      const [first, second] = await Promise.all([readCents(tx, 1), readCents(tx, 2)])
      await disturb(attempt)
      return [
        setCents(1, first - 100),
        { sql: 'update wallet set cents = ? where id = 2 returning cents', args: [second + 100] },
      ]
    },
    options,
    client,
  )
/** Counts the requests to the server. */
function countRequests(): () => number {
  let count = 0
  proxy.next = () => {
    count += 1
    return { kind: 'none' }
  }
  return () => count
}

test('takes two requests, and returns the results of the writes', async () => {
  const requests = countRequests()
  const { results, attempts } = await move(db, async () => {})
  expect(results.map(({ rows, rowsAffected }) => [rows, rowsAffected])).toEqual([
    [[], 1],
    [[{ cents: 100 }], 1],
  ])
  expect(attempts).toBe(1)
  expect(requests()).toBe(2)
  expect(await readWallets()).toEqual([900, 100])
})

test('without writes, several reads are checked by one request, and a single read by none', async () => {
  const requests = countRequests()
  const read = (tx: OptimisticReader) => tx.execute('select cents from wallet')
  await optimistic(db, async (tx) => {
    await read(tx)
    return []
  })
  expect(requests()).toBe(1)
  await optimistic(db, async (tx) => {
    await read(tx)
    await read(tx)
    return []
  })
  expect(requests()).toBe(4)
})

test('runs the callback again if another client has changed what it read, and keeps nothing of the first attempt', async () => {
  const events: unknown[] = []
  await using observed = createClient({
    ...database.config,
    observe: (event) => {
      if (event.type === 'retry') events.push([event.attempt, (event.error as ConflictError).name])
    },
  })
  const { attempts } = await move(observed, async (attempt) => {
    if (attempt <= 2) await direct.execute('update wallet set cents = cents + 1 where id = 2')
  })
  expect(attempts).toBe(3)
  expect(await readWallets()).toEqual([900, 102])
  expect(events).toEqual([
    [1, 'ConflictError'],
    [2, 'ConflictError'],
  ])
})

test('works on a server that supports only /v2', async () => {
  proxy.hidesV3 = true
  await using client = createClient({ ...database.config, url: proxy.url })
  const { attempts } = await move(
    client,
    async (attempt) => attempt === 1 && (await direct.execute('update wallet set cents = 1 where id = 2')),
  )
  expect(attempts).toBe(2)
  expect(await readWallets()).toEqual([900, 101])
})

test('a change of other rows is no conflict', async () => {
  const { attempts } = await move(db, () => direct.execute('insert into wallet (cents) values (5)'))
  expect(attempts).toBe(1)
})

test('after too many conflicts, the callback runs in a transaction, which always comes to an end', async () => {
  let writes = 0
  const { attempts } = await move(
    db,
    async (attempt) => {
      // the transaction of the last attempt holds the write lock
      if (attempt <= 3) await direct.execute('update wallet set cents = cents + 1 where id = 1')
      writes += 1
    },
    { maxConflicts: 2 },
  )
  expect([attempts, writes]).toEqual([4, 4])
  expect(await readWallets()).toEqual([903, 100])
})

test('without a fallback, the last conflict is thrown', async () => {
  const disturb = () => direct.execute('update wallet set cents = cents + 1 where id = 1')
  const moving = move(db, disturb, { maxConflicts: 1, fallback: 'none' })
  const error = await moving.catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(ConflictError)
  expect(error).toMatchObject({ code: 'CONFLICT', outcome: 'not_applied' })
  expect((error as Error).cause).toBeInstanceOf(SqlError)
  expect(await readWallets()).toEqual([1002, 0])
})

test('a callback that throws because it saw two states runs again, and the error of consistent reads is reported', async () => {
  const transfer = run(async (tx, attempt) => {
    const first = await readCents(tx, 1)
    if (attempt === 1) await direct.batch([setCents(1, 500), setCents(2, 500)])
    if (first + (await readCents(tx, 2)) !== 1000) throw new Error('money was lost')
    return []
  })
  expect(await transfer).toEqual({ results: [], attempts: 2 })
  const failure = new Error('not enough')
  const failing = run(async (tx) => {
    await tx.batch(['select 1', 'select 2'])
    throw failure
  })
  await expect(failing).rejects.toBe(failure)
})

test('reads that saw two states are found even if nothing is written', async () => {
  let sum = 0
  const { attempts } = await run(async (tx, attempt) => {
    sum = await readCents(tx, 1)
    if (attempt === 1) await direct.batch([setCents(1, 0), setCents(2, 1000)])
    sum += await readCents(tx, 2)
    return []
  })
  expect([attempts, sum]).toEqual([2, 1000])
})

test('a failed read that the callback catches is repeated in a transaction', async () => {
  await direct.execute('drop table if exists later')
  const seen: boolean[] = []
  await run(async (tx) => {
    const isThere = await tx.execute('select * from later').then(
      () => true,
      () => false,
    )
    // what was read has changed
    if (seen.push(isThere) === 1) await direct.execute('create table later (a)')
    return [setCents(1, isThere ? 1 : 0)]
  })
  expect(seen).toEqual([false, true])
  expect(await readWallets()).toEqual([1, 0])
  await direct.execute('drop table later')
})

test('an error of a read is not reported if another read saw another state', async () => {
  await direct.execute('create table if not exists earlier (a)')
  const { attempts } = await run(async (tx) => {
    const { rows } = await tx.execute("select name from sqlite_schema where name = 'earlier'")
    await direct.execute('drop table if exists earlier')
    if (rows.length > 0) await tx.execute('select * from earlier')
    return [setCents(2, rows.length + 5)]
  })
  expect(attempts).toBe(2)
  expect(await readWallets()).toEqual([1000, 5])
  const failing = run(async (tx) => {
    await tx.execute('select * from wallet')
    await tx.execute('select * from earlier')
    return []
  })
  await expect(failing).rejects.toThrow('no such table: earlier')
})

test('a syntax error in a write is the reason why the callback runs again', async () => {
  const reasons: unknown[] = []
  await using client = createClient({
    ...database.config,
    observe: (event) => {
      if (event.type === 'retry') reasons.push(event.error)
    },
  })
  const failing = optimistic(client, async (tx) => {
    await tx.execute('select * from wallet')
    return ['update wallet sett cents = 1']
  })
  await expect(failing).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR' })
  expect(reasons).toMatchObject([{ name: 'SqlError', code: 'SQL_PARSE_ERROR' }])
})

test('a syntax error in a write is reported as such without a fallback', async () => {
  const failing = run(
    async (tx) => {
      await tx.execute('select * from wallet')
      return ['update wallet sett cents = 1']
    },
    { fallback: 'none' },
  )
  await expect(failing).rejects.toBeInstanceOf(SqlError)
  await expect(failing).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR' })
})

test.each([
  ['insert into wallet (cents) values (1)', 'INSERT'],
  ['update wallet set cents = 0', 'UPDATE'],
  ['-- a comment\nDelete from wallet', 'DELETE'],
  ['with a as (select 1) delete from wallet', 'WITH'],
  ['create table u (a)', 'CREATE'],
  ['pragma user_version', 'PRAGMA'],
  ['explain select 1', 'EXPLAIN'],
  ['savepoint a', 'SAVEPOINT'],
])('rejects %s as a read, by name', async (sql, verb) => {
  const message = `${verb} cannot be executed in an optimistic transaction`
  const requests = countRequests()
  for (const method of ['execute', 'batch'] as const) {
    const failing = run(async (tx) => {
      await (method === 'execute' ? tx.execute(sql, [], { readOnly: true }) : tx.batch([sql]))
      return []
    })
    await expect(failing).rejects.toThrow(message)
  }
  expect(requests()).toBe(0)
  expect(await readWallets()).toEqual([1000, 0])
})

test('rejects BEGIN among the writes, a callback that is none, and unknown options', async () => {
  await expect(optimistic(db, () => ['begin'])).rejects.toThrow('BEGIN is not allowed here')
  await expect(optimistic(db, (() => 5) as never)).rejects.toThrow('expected an array of statements')
  expect(() => optimistic(db, [] as never)).toThrow('expected a callback')
  await expect(optimistic(db, () => [], { retries: 1 } as object)).rejects.toThrow('unknown option retries')
  await expect(optimistic(db, () => [], { maxConflicts: -1 })).rejects.toThrow(
    'maxConflicts must be an integer >= 0',
  )
})

test('the positions in an error count the writes only, and a failed write undoes all', async () => {
  const writes = (sql: string) =>
    run(async (tx) => {
      await tx.execute('select * from wallet')
      return ['update wallet set cents = 5 where id = 2', setCents(1, 6), sql]
    })
  const error = await writes('insert into wallet values (1, 1)').catch((reason: unknown) => reason)
  expect(error).toMatchObject({ statementIndex: 2, code: 'SQLITE_CONSTRAINT', outcome: 'not_applied' })
  expect((error as SqlError).results).toHaveLength(2)
  for (const sql of ['insert into missing values (1)', 'insert into wallet valus (1)'])
    await expect(writes(sql)).rejects.toBeInstanceOf(SqlError)
  expect(await readWallets()).toEqual([1000, 0])
})

test('a lost response of the writes says unknown, and they are not sent again', async () => {
  let batches = 0
  proxy.next = (body) => {
    if (!body.includes('update wallet')) return { kind: 'none' }
    batches += 1
    return { kind: 'drop-after' }
  }
  const error = await move(db, async () => {}).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(TransportError)
  expect(error).toMatchObject({ code: 'NETWORK', outcome: 'unknown' })
  expect(batches).toBe(1)
  expect(await readWallets()).toEqual([900, 100])
})

test('after a read that got no response, no request follows, even if the callback wraps the error', async () => {
  const client = createClient({ ...database.config, url: proxy.url, maxRetries: 0 })
  const sent: string[] = []
  proxy.next = (body) => {
    sent.push(body)
    return body.includes('select 3') ? { kind: 'drop-after' } : { kind: 'none' }
  }
  const callback = async (tx: OptimisticReader): Promise<InStatement[]> => {
    await readCents(tx, 1)
    await readCents(tx, 2)
    await tx.execute('select 3').catch((cause: unknown) => {
      throw new Error('wrapped', { cause })
    })
    return []
  }
  await expect(run(callback, {}, client)).rejects.toThrow('wrapped')
  expect(sent).toHaveLength(3)
  await client.close()
})

test('a dropped table is a conflict, and then the error of the read', async () => {
  let attempts = 0
  const failing = run(async (tx, attempt) => {
    attempts = attempt
    await tx.execute('select * from wallet')
    await direct.execute('drop table wallet')
    return ['select 1']
  })
  await expect(failing).rejects.toThrow('no such table: wallet')
  expect(attempts).toBe(2)
})

test('more cells than can be compared are read again in a transaction, at once', async () => {
  const sql = 'with recursive c (i) as (select 1 union all select i + 1 from c limit ?) select i from c'
  const read = async (tx: OptimisticReader) => [setCents(1, (await tx.execute(sql, [10_001])).rows.length)]
  expect(await run(read, { fallback: 'transaction' })).toMatchObject({ attempts: 2 })
  expect(await readWallets()).toEqual([10_001, 0])
  const withoutFallback = run(read, { fallback: 'none' })
  await expect(withoutFallback).rejects.toThrow('the reads cannot be compared (10001 cells, more than 10000)')
})

test.each([
  [`select ${Array.from({ length: 2_000 }, () => 1).join()}`, '(2000 columns, more than 1999)'],
  ["select '?20001'", '(parameter ?20001, more than 20000)'],
  ['select zeroblob(3500000)', /\(\d{7} characters, more than 4000000\)$/],
])('the reason why a read cannot be compared is in the message', async (sql, reason) => {
  const failing = run(
    async (tx) => {
      await tx.execute(sql)
      return ['select 1']
    },
    { fallback: 'none' },
  )
  await expect(failing).rejects.toBeInstanceOf(ConflictError)
  await expect(failing).rejects.toThrow(reason)
})

test.each([
  ['values are too large to be sent back', 'select zeroblob(3500000)'],
  [
    'a read has as many columns as SQLite allows',
    `select ${Array.from({ length: 2_000 }, (_, i) => i).join()}`,
  ],
  ['the text of a read seems to have a huge number of parameters', "select '?999999999' as a"],
  ['a read has another result each time', 'select hex(randomblob(8))', { maxConflicts: 1 }],
])(
  'the callback runs again in a transaction if %s',
  async (_, sql, options: { maxConflicts?: number } = {}) => {
    const { attempts } = await run(async (tx, attempt) => {
      const { rows } = await tx.execute(sql)
      expect(rows).toHaveLength(1)
      return [setCents(1, attempt)]
    }, options)
    expect(attempts).toBe((options.maxConflicts ?? 0) + 2)
    expect(await readWallets()).toEqual([attempts, 0])
  },
)

describe('ends', () => {
  const conflict = () => direct.execute('update wallet set cents = cents + 1 where id = 1')

  test('with the signal’s reason, before another attempt', async () => {
    const controller = new AbortController()
    const reason = new Error('enough')
    let attempts = 0
    const disturb = async (attempt: number): Promise<void> => {
      attempts = attempt
      await conflict()
      if (attempt === 2) controller.abort(reason)
    }
    const moving = move(db, disturb, { signal: controller.signal })
    await expect(moving).rejects.toBe(reason)
    expect(attempts).toBe(2)
    await expect(move(db, conflict, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })

  test('after its time, before another attempt', async () => {
    let attempts = 0
    const disturb = async (attempt: number): Promise<void> => {
      attempts = attempt
      await conflict()
      // longer than the limit, on every machine
      await new Promise((resolve) => setTimeout(resolve, 60))
    }
    const moving = move(db, disturb, { timeoutMs: 50 })
    await expect(moving).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
    expect(attempts).toBe(1)
  })

  test('when the client is closed', async () => {
    const closing = createClient(database.config)
    const moving = move(closing, () => closing.close())
    await expect(moving).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
    await expect(move(closing, async () => {})).rejects.toMatchObject({ code: 'CLOSED' })
    expect(await readWallets()).toEqual([1000, 0])
  })

  test('only after its writes, while the client waits for pending calls', async () => {
    const events: string[] = []
    const closing = createClient({ ...database.config, observe: ({ type }) => events.push(type) })
    let closed: Promise<void> | undefined
    await optimistic(closing, async (tx) => {
      closed = closing.close({ drainMs: 20_000 })
      expect(await tx.batch([])).toEqual([])
      expect(events).toEqual([])
      return [setCents(2, 3)]
    })
    await closed
    expect(await readWallets()).toEqual([1000, 3])
  })

  test('only after its fallback, while the client waits for pending calls', async () => {
    const closing = createClient(database.config)
    let closed: Promise<void> | undefined
    const disturb = async (attempt: number): Promise<void> => {
      // the second attempt is the transaction, which holds the write lock
      if (attempt === 1) await conflict()
      closed ??= closing.close({ drainMs: 20_000 })
    }
    expect((await move(closing, disturb, { maxConflicts: 0 })).attempts).toBe(2)
    await closed
    expect(await readWallets()).toEqual([901, 100])
  })

  test('for reads, when the callback has returned', async () => {
    let late: (() => Promise<unknown>) | undefined
    await optimistic(db, (tx) => {
      late = () => tx.execute('select 1')
      return []
    })
    await expect(late?.()).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
  })
})

test.each([
  ['numbered parameters', 'select ?2, ?1', [1, 'two']],
  ['a parameter that is used twice', 'select ?1, ?1 + 1', [1]],
  ['unused arguments in the text', "select '?9:a@b$c', ?", [1]],
  ['named parameters', 'select :a, @b, $c', { a: 1, b: 2.5, $c: 'x' }],
  ['a named parameter like ours', 'select :baton1, :baton', { baton1: 1, baton: 2 }],
  ['-0.0 as argument', 'select ?', [new RealValue(-0)]],
  ['a comment at the end', 'select id from wallet -- all', []],
  ['a semicolon and a comment', 'select id from wallet; /* all */', []],
  ['equal names of columns', `select ${Array.from({ length: 40 }, () => '1 as a').join()}`, []],
  ['many columns', `select ${Array.from({ length: 1_000 }, (_, index) => index).join()}`, []],
  ['VALUES', "values (1, 'a'), (2, null)", []],
  ['a compound', 'select 1 union all select 2 order by 1 desc', []],
  [
    'its own WITH',
    'with baton (a) as (values (1)), baton_seen as (select 2) select * from baton, baton_seen',
    [],
  ],
  ['LIMIT and OFFSET', 'select id from wallet order by id desc limit 1 offset 1', []],
  ['no rows', 'select * from wallet where id > ?', [100]],
  [
    'no rows, and text that looks like a parameter',
    "select * from wallet where cents = '12:30' or ? = '$.a'",
    [1],
  ],
  ['only NULL, and text that looks like a parameter', "select max(cents) from wallet where '12:30' = ''", []],
  ['infinities and NULL', 'select 1e999, -1e999, null', []],
  ['NUL and the empty blob', "select 'a' || char(0) || 'b', x'', ''", []],
  ['the largest integers', 'select 9223372036854775807, -9223372036854775808, 9007199254740993', []],
])('repeats a read with %s', async (_, sql, args) => {
  const { attempts, results } = await run(
    async (tx) => {
      await tx.execute(sql, args)
      return [setCents(2, 7)]
    },
    { fallback: 'none', maxConflicts: 0 },
  )
  expect([results.length, attempts]).toEqual([1, 1])
  expect(await readWallets()).toEqual([1000, 7])
})

describe('compares exactly', () => {
  const value = fc.oneof(
    fc.constantFrom(
      ...`null 0 1 1.0 '1' x'31' '' x'' -0.0 0.0 9e999 -9e999 1e-300 5e-324 1e-323 9007199254740993
        9007199254740992 9007199254740992.0 'a' 'A' char(233) 0.3 '0' '-0.0' '9e999' '8e999'`.split(/\s+/),
      "'a '",
      "'a' || char(0)",
      "'a' || char(0) || 'b'",
      "'e' || char(769)",
      '0.1 + 0.2',
    ),
    fc.integer().map(String),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number.toExponential()),
  )
  const rows = fc.array(fc.tuple(value, value), { maxLength: 4 })
  const columns = fc.constantFrom(
    'a, b',
    'a collate nocase, b text',
    'a text collate nocase, b real',
    'a blob, b numeric',
    'a integer, b',
  )

  const fill = (table: readonly (readonly string[])[]): string[] => [
    'delete from cell',
    ...table.map((row) => `insert into cell values (${row.join()})`),
  ]
  /** What a client can see: bytes and types, in order. Infinities have no sign on the wire. */
  const fingerprint = async (): Promise<unknown> =>
    (
      await direct.execute(
        `select ${['a', 'b']
          .map(
            (column) => `typeof(${column}), case when typeof(${column}) = 'real' then
            case when abs(${column}) = 9e999 then 'inf' else printf('%!.20g', ${column}) || atan2(${column}, -1) end
            else hex(cast(${column} as blob)) end`,
          )
          .join()} from cell order by rowid`,
        [],
        { rowMode: 'array' },
      )
    ).rows

  test(`on random tables (TEST_SEED=${SEED})`, { timeout: runSize('FAULT_TIMEOUT_MS', 90_000) }, async () => {
    let [conflicts, agreements] = [0, 0]
    await fc.assert(
      fc.asyncProperty(
        columns,
        rows,
        rows,
        value,
        fc.nat(2),
        async (declaration, before, others, cell, kind) => {
          await direct.batch([
            'drop table if exists cell',
            `create table cell (${declaration})`,
            ...fill(before),
          ])
          const original = await fingerprint()
          // the same rows, with one other cell, or other rows
          const after =
            [before, before.map(([a, b], index) => (index === 0 ? [a, cell] : [a, b])), others][kind] ?? []
          const comparison = run(
            async (tx) => {
              await tx.execute('select * from cell')
              await direct.batch(fill(after))
              return ['select 1']
            },
            { fallback: 'none', maxConflicts: 0 },
            direct,
          )
          const hasConflict = await comparison.then(
            () => false,
            (error: unknown) => {
              expect(error).toBeInstanceOf(ConflictError)
              return true
            },
          )
          const isChanged = JSON.stringify(await fingerprint()) !== JSON.stringify(original)
          expect(hasConflict).toBe(isChanged)
          if (hasConflict) conflicts += 1
          else agreements += 1
        },
      ),
      { seed: SEED, numRuns: runSize('COMPARED_TABLES', 150) },
    )
    expect(conflicts).toBeGreaterThan(0)
    expect(agreements).toBeGreaterThan(0)
  })
})
