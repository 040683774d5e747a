import { createClient } from '@batonsql/libsql-client'
import {
  type Client,
  type Config,
  createClient as createOriginal,
  type InStatement,
  type InValue,
  type Transaction,
} from '@libsql/client'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'
import { words } from '../../support/words.ts'
import { describeOutcome } from './describe-outcome.ts'

// Makes the same calls with the original and with our package, on separate databases: a program must see the same results.
const server = await openTestServer()
const [originalDatabase, ourDatabase] = [await server.createDatabase(), await server.createDatabase()]
const openBoth = (config: Partial<Config> = {}): readonly [Client, Client] => {
  const configOf = ({ url, authToken }: TestDatabase) => ({ url, ...(authToken && { authToken }), ...config })
  return [createOriginal(configOf(originalDatabase)), createClient(configOf(ourDatabase))]
}
const [original, ours] = openBoth()
afterAll(() => {
  original.close()
  ours.close()
})

type Call = (client: Client) => Promise<unknown>

async function expectSameOutcome(
  call: Call,
  clients: readonly [Client, Client] = [original, ours],
): Promise<void> {
  const expected = await describeOutcome(() => call(clients[0]))
  expect(await describeOutcome(() => call(clients[1]))).toEqual(expected)
}

const CREATE_TABLE =
  'create table t (id integer primary key, a text unique, b real, c blob, d any, "e" boolean)'
const resetTable = async (client: Client): Promise<void> => {
  await client.executeMultiple(`drop table if exists t; ${CREATE_TABLE}`)
}

/** A call that runs in a transaction, which is then closed. */
const inTransaction =
  (run: (tx: Transaction, db: Client) => Promise<unknown>, mode: 'write' | 'read' = 'write'): Call =>
  async (db) => {
    const tx = await db.transaction(mode)
    try {
      return await run(tx, db)
    } finally {
      tx.close()
    }
  }
const afterClose = (call: (tx: Transaction) => Promise<unknown>): Call =>
  inTransaction((tx) => {
    tx.close()
    return call(tx)
  }, 'read')
const NUMBERS = [...Array(400).keys()]
const insert = (a: string): string => `insert into t (a) values ('${a}')`

const CALLS: readonly [string, Call][] = [
  ['DDL', (db) => db.execute('create table if not exists t (a)')],
  [
    'positional arguments',
    (db) => db.execute('insert into t (a, b, c, d) values (?, ?, ?, ?)', ['x', 1, new Uint8Array([1, 2]), 3]),
  ],
  [
    'named arguments',
    (db) =>
      db.execute({
        sql: 'insert into t (a, b, c, d) values (:a, @b, $c, :d)',
        args: { a: 'y', b: 2.5, c: new ArrayBuffer(3), d: 5n },
      }),
  ],
  ['a row', (db) => db.execute("select 'x' as a, 1 as b, x'0102' as c, null as d")],
  [
    'columns with numeric names, names of setters, and duplicate names',
    (db) =>
      db.execute(
        'select 1 as id, 2 as id, 5 as "0", 6 as length, 7 as "1", 8 as __proto__, 9 as "", 10 as ""',
      ),
  ],
  ['an integer beyond 2^53', (db) => db.execute('select 9007199254740993')],
  ['types of arguments', (db) => db.execute('select typeof(?), typeof(?), ? / 2, ?', [1, 1n, 3, true])],
  [
    'objects as arguments',
    (db) => db.execute('select ?, ?, ?', [new Date(5), { toString: () => 'x' } as never, [1, 2] as never]),
  ],
  ['undefined as an argument', (db) => db.execute('select ?', [undefined as never])],
  ['a symbol as an argument', (db) => db.execute('select ?', [Symbol('x') as never])],
  ['NaN', (db) => db.execute('select ?', [Number.NaN])],
  ['a bigint beyond 64 bits', (db) => db.execute('select ?', [2n ** 64n])],
  ['invalid SQL', (db) => db.execute('selec 1')],
  ['empty SQL', (db) => db.execute('')],
  ['two statements', (db) => db.execute('select 1; select 2')],
  ['a missing table', (db) => db.execute('select * from nope')],
  ['too few arguments', (db) => db.execute('select ?, ?', [1])],
  ['too many arguments', (db) => db.execute('select ?', [1, 2])],
  ['an unknown argument name', (db) => db.execute('select :a', { b: 1 })],
  ['args: undefined', (db) => db.execute({ sql: 'select 1', args: undefined as never })],
  ['a constraint', (db) => db.batch([insert('x'), insert('x'), 'select 1'], 'write')],
  ['RETURNING', (db) => db.execute(`${insert('x')} returning *`)],
  ['an update', (db) => db.execute('update t set b = 3')],
  [
    'a batch of each form',
    (db) => db.batch([insert('q'), { sql: 'select ?', args: [1] }, ['select ?', [2]] as never], 'write'),
  ],
  ['a batch with invalid SQL', (db) => db.batch([insert('s'), 'selec 1'], 'write')],
  ['a write in a read batch', (db) => db.batch([insert('s')], 'read')],
  ['an unknown mode', (db) => db.batch(['select 1'], 'nope' as never)],
  ['an empty batch', (db) => db.batch([], 'write')],
  [
    'migrate, without foreign keys',
    (db) =>
      db.migrate([
        'create table p (id integer primary key)',
        'create table k (p references p (id))',
        'insert into k values (7)',
      ]),
  ],
  ['foreign keys after migrate', (db) => db.execute('insert into k values (8)')],
  ['a script', (db) => db.executeMultiple(`${insert('m1')}; ${insert('m2')};`)],
  ['a script with a transaction', (db) => db.executeMultiple(`begin; delete from t; commit; ${insert('n')}`)],
  ['the rows', (db) => db.execute('select * from t order by id')],
  [
    'a transaction',
    inTransaction(async (tx, db) => {
      await tx.execute(insert('t1'))
      const result = await tx.execute('select count(*) as n from t')
      await tx.commit()
      return [result, await db.execute('select count(*) from t')]
    }),
  ],
  [
    'a rollback',
    inTransaction(async (tx, db) => {
      await tx.execute(insert('t1'))
      await tx.rollback()
      return await db.execute('select count(*) as n from t')
    }),
  ],
  [
    'a constraint violation in a transaction, which continues',
    inTransaction(async (tx) => {
      await tx.execute(insert('t1'))
      try {
        return await tx.execute(insert('t1'))
      } finally {
        await tx.commit()
      }
    }),
  ],
  [
    'a batch in a transaction that fails in the middle, and the rows afterwards',
    inTransaction(async (tx, db) => {
      await tx.batch([insert('t5'), insert('t5')]).catch(() => {})
      await tx.commit()
      return await db.execute('select a from t')
    }),
  ],
  ['invalid SQL in a transaction', inTransaction((tx) => tx.execute('selec 1'))],
  ['a write in a read transaction', inTransaction((tx) => tx.execute(insert('t6')), 'read')],
  [
    'a script in a transaction',
    inTransaction(async (tx, db) => {
      await tx.executeMultiple(`${insert('e1')}; ${insert('e2')}`)
      await tx.commit()
      return await db.execute('select a from t')
    }),
  ],
  ['execute after close', afterClose((tx) => tx.execute('select 1'))],
  ['batch after close', afterClose((tx) => tx.batch(['select 1']))],
  ['executeMultiple after close', afterClose((tx) => tx.executeMultiple('select 1'))],
  ['commit after close', afterClose((tx) => tx.commit())],
  ['rollback after close', afterClose((tx) => tx.rollback())],
  [
    'execute after commit',
    inTransaction(async (tx) => {
      await tx.execute('select 1')
      await tx.commit()
      return await tx.execute('select 1')
    }),
  ],
  ['sync', (db) => db.sync()],
  ['numbered arguments', (db) => db.execute('select ?2, ?3, ?1', ['one', 'two', 'three'])],
  ['numbered arguments with a gap', (db) => db.execute('select ?3, ?1', ['one', 'two', 'three'])],
  ['arguments with a number and without', (db) => db.execute('select ?2, ?, ?3', ['one', 'two', 'three'])],
  ...[':', '@', '$'].map((sign): [string, Call] => [
    `names with ${sign}, used twice, and by a number`,
    (db) =>
      db.execute(`select ${sign}b, ${sign}a, ${sign}b || ${sign}a, ?1`, { a: 'one', [`${sign}b`]: 'two' }),
  ]),
  [
    'hundreds of statements in a batch',
    (db) =>
      db.batch(
        NUMBERS.map((n) => `select ${n}`),
        'read',
      ),
  ],
  [
    'one statement many times in a batch',
    (db) =>
      db.batch(
        NUMBERS.map((n) => ({ sql: 'select ?', args: [n] })),
        'read',
      ),
  ],
  [
    'DDL and its use in a deferred batch',
    (db) =>
      db.batch(
        ['select 1 + 1', 'create table u (a)', 'insert into u values (21) returning 2 * a', 'drop table u'],
        'deferred',
      ),
  ],
  ['commit of an empty transaction', async (db) => (await db.transaction('read')).commit()],
  ['rollback of an empty transaction', async (db) => (await db.transaction('read')).rollback()],
  [
    'a script with an error in its transaction',
    async (db) => {
      await db.executeMultiple('begin; delete from t; insert into t values (nope()); commit').catch(() => {})
      return await db.execute('select count(*) from t')
    },
  ],
  ...["COMMIT; insert into t (a) values ('more')", 'COMMIT garbage', 'ROLLBACK garbage', 'end/**/x'].map(
    (text): [string, Call] => [
      `text after the end of a transaction: ${text}`,
      inTransaction(async (tx, db) => {
        await tx.execute(insert('kept'))
        const isRejected = await tx.execute(text).then(
          () => false,
          () => true,
        )
        tx.close()
        return await db.execute({ sql: 'select ? as rejected, count(*) as kept from t', args: [isRejected] })
      }),
    ],
  ),
  [
    'reconnect',
    async (db) => {
      db.reconnect()
      return await db.execute('select 1')
    },
  ],
]

test.each(CALLS)('has the same outcome: %s', async (_, call) => {
  await resetTable(original)
  await resetTable(ours)
  await expectSameOutcome(call)
})

describe.each(['selec', '', 'select 1; select 2', 'select nope', 'select * from nope', "select json('{')"])(
  'a transaction continues or is closed, as in the original, after %j fails',
  (sql) => {
    test.each<[string, (tx: Transaction) => Promise<unknown>]>([
      ['as its first statement', (tx) => tx.execute(sql)],
      ['in its first batch', (tx) => tx.batch(['select 1', sql])],
      ['as its second statement', async (tx) => [await tx.execute('select 1'), await tx.execute(sql)]],
      ['after a script', async (tx) => [await tx.executeMultiple('select 1'), await tx.execute(sql)]],
    ])('%s', async (_, call) => {
      const observe = async (client: Client): Promise<unknown> => {
        await resetTable(client)
        const tx = await client.transaction('write')
        const outcomes: unknown[] = []
        for (const step of [() => call(tx), () => tx.execute(insert('after')), () => tx.commit()])
          outcomes.push(await describeOutcome(step), tx.closed)
        return [outcomes, await describeOutcome(() => client.execute('select a from t'))]
      }
      expect(await observe(ours)).toEqual(await observe(original))
    })
  },
)

test('a hundred concurrent batches are transactions', async () => {
  await resetTable(ours)
  const sums = await Promise.all(
    Array.from({ length: 100 }, (_, index) =>
      ours.batch(
        [
          { sql: 'insert into t (b, d) values (?, ?)', args: [index, index * 10] },
          'select sum(b) as b, sum(d) as d from t',
        ],
        'write',
      ),
    ),
  )
  for (const [, sum] of sums) expect(sum?.rows[0]?.['d']).toBe((sum?.rows[0]?.['b'] as number) * 10)
  expect((await ours.execute('select sum(b) as b from t')).rows[0]?.['b']).toBe(4_950)
})

const value: fc.Arbitrary<InValue> = fc.oneof(
  fc.constant(null),
  fc.string({ unit: 'grapheme' }),
  fc.double({ noNaN: true, noDefaultInfinity: true }).filter((number) => !Object.is(number, -0)),
  fc.integer(),
  fc.bigInt({ min: -(2n ** 53n) + 1n, max: 2n ** 53n - 1n }),
  fc.boolean(),
  fc.uint8Array(),
  fc.date({ noInvalidDate: true }),
)

test('returns the same values with positional and named arguments, with and without a table', async () => {
  await resetTable(original)
  await resetTable(ours)
  const property = fc.asyncProperty(value, value, async (first, second) => {
    const statements: InStatement[] = [
      { sql: 'select ?, ?, typeof(?1), typeof(?2)', args: [first, second] },
      { sql: 'select :a as x, $b as y', args: { a: first, b: second } },
      {
        sql: 'insert into t (b, d) values (?, ?) returning b, d, typeof(b), typeof(d)',
        args: [first, second],
      },
    ]
    for (const statement of statements) await expectSameOutcome((db) => db.execute(statement))
    await expectSameOutcome((db) => db.batch(statements, 'deferred'))
  })
  await fc.assert(property, { numRuns: 60 })
})

test.each(['number', 'bigint', 'string'] as const)(
  'returns the same integers with intMode %s',
  async (intMode) => {
    const clients = openBoth({ intMode })
    for (const sql of ['select 5', 'select 9007199254740993', 'select -9223372036854775808', 'select 1.5'])
      await expectSameOutcome((db) => db.execute(sql), clients)
    for (const client of clients) client.close()
  },
)

const URLS = words(`
  nope ftp://x http://x?tls=1 https://x?tls=0 http://x?what=1 libsql://x?tls=0 http://x#part http://x?tls=2
`)
test.each(URLS)('both reject the URL %s', (url) => {
  const getOutcome = (create: typeof createOriginal): unknown => {
    try {
      create({ url }).close()
      return 'accepted'
    } catch (error) {
      return [(error as Error).name, (error as { code?: string }).code, (error as Error).message]
    }
  }
  expect(getOutcome(createClient)).toEqual(getOutcome(createOriginal))
})
