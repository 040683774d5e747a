import { type ClientConfig, SqlError } from '@batonsql/core'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FaultProxy } from '../support/fault-proxy.ts'
import { countRequests } from '../support/fixtures.ts'
import { openTestServer, type TestDatabase } from '../support/test-server.ts'

/** Runs statements on the table `item`, in a transaction or outside. */
export interface Executor {
  insert(name: string): Promise<unknown>
  /** Returns the names in the order of insertion. */
  names(): Promise<readonly unknown[]>
  run(statement: string): Promise<unknown>
  /** Selects values that are parameters. */
  select(values: readonly unknown[]): Promise<readonly unknown[]>
  /** Returns the first row. */
  row(statement: string): Promise<object>
  /** Inserts names in one request. */
  insertBatch(names: readonly string[]): Promise<unknown>
  /** Runs a nested transaction, or a savepoint. */
  nest?(callback: (inner: Executor) => Promise<unknown>): Promise<unknown>
}

/** A database through one adapter. */
interface Connection extends Executor {
  transaction(callback: (tx: Executor) => Promise<unknown>): Promise<unknown>
  close(): Promise<unknown>
}

/** The part of an adapter that the contract uses. */
export interface Adapter {
  connect(config: ClientConfig): Connection
  /** Returns the error that an error of the adapter wraps. */
  unwrap?(error: unknown): unknown
  /** Whether `COMMIT` as a statement ends a transaction, and transactions have no time limit, as with `@libsql/client`. */
  readonly isDropIn?: boolean
  /** Whether executors have `nest`. */
  readonly canNest?: boolean
}

const CONSTRAINTS = { unique: 'SQLITE_CONSTRAINT_UNIQUE', foreignKey: 'SQLITE_CONSTRAINT_FOREIGNKEY' }
/** Ends a transaction in which the name exists. */
const ROLLS_BACK = "insert or rollback into item (name) values ('a')"

/** Runs the tests that core, the Kysely dialect, the Drizzle driver and the drop-in for `@libsql/client` have in common. */
export function testAdapter({
  connect,
  unwrap = (error) => error,
  isDropIn = false,
  canNest = false,
}: Adapter): void {
  let database: TestDatabase
  let proxy: FaultProxy
  let db: Connection
  /** What happens to the next requests. */
  let faults: ('none' | 'drop-before' | 'drop-after')[] = []

  const open = async (): Promise<void> => {
    database = await (await openTestServer()).createDatabase()
    proxy = await FaultProxy.start(database.url)
    proxy.next = () => ({ kind: faults.shift() ?? 'none' })
    db = connectWith({})
    await db.run('create table item (id integer primary key, name text not null unique)')
    await db.run('create table part (item integer references item (id) deferrable initially deferred)')
  }
  const close = async (): Promise<void> => {
    await db.close()
    await proxy.close()
  }
  /** Replaces the database after each test of a group, because an interrupted transaction holds the write lock for a while. */
  const useOwnDatabases = (): void => {
    afterEach(async () => {
      await close()
      await open()
    })
  }
  beforeAll(open)
  afterAll(close)
  beforeEach(async () => {
    faults = []
    await db.run('delete from item')
  })

  const connectWith = (config: Partial<ClientConfig>): Connection =>
    connect({ ...database.config, url: proxy.url, ...config })
  const countRequestsOf = (work: () => Promise<unknown>): Promise<number> => countRequests(database, work)
  const expectRejection = (call: Promise<unknown>, expected: object): Promise<void> =>
    expect(
      call.catch((error: unknown) => {
        throw unwrap(error)
      }),
    ).rejects.toMatchObject(expected)

  const catchError = (call: Promise<unknown>): Promise<unknown> =>
    call.then(
      () => null,
      (error: unknown) => error,
    )

  const nest = (tx: Executor, callback: (inner: Executor) => Promise<unknown>): Promise<unknown> =>
    tx.nest?.(callback) ?? Promise.reject(new Error('not supported'))

  test('statements started together are all applied', async () => {
    const names = Array.from({ length: 10 }, (_, n) => `p${n}`)
    expect(await countRequestsOf(() => Promise.all(names.map((name) => db.insert(name))))).toBe(10)
    expect([...(await db.names())].sort()).toEqual(names)
  })

  test.skipIf(isDropIn).each(['outside of a transaction', 'in a transaction'])(
    'an error %s has its code, the constraint and the line that ran the statement',
    async (where) => {
      await db.insert('a')
      const insert = (on: Executor) => on.insert('a')
      const error = await catchError(where === 'in a transaction' ? db.transaction(insert) : insert(db))
      expect(unwrap(error)).toBeInstanceOf(SqlError)
      expect(unwrap(error)).toMatchObject({
        code: 'SQLITE_CONSTRAINT',
        extendedCode: CONSTRAINTS.unique,
        constraint: { kind: 'unique', table: 'item', columns: ['name'] },
      })
      expect((error as Error).stack).toContain('adapter-contract.ts')
    },
  )

  test.skipIf(isDropIn)(
    'columns named __proto__, length and 0 are ordinary columns; of several columns with the same name, the last is kept',
    async () => {
      const row = await db.row('select 1 as "__proto__", 2 as "length", 3 as "0", 4 as a, 5 as a, count(*)')
      const expected = { 0: 3, ['__proto__']: 1, length: 2, a: 5, 'count(*)': 1 }
      expect(Object.entries(row)).toEqual(Object.entries(expected))
      expect(Object.getPrototypeOf(row)).toBe(Object.prototype)
    },
  )

  describe.skipIf(isDropIn)('values', () => {
    const [two53, two63] = [2n ** 53n, 2n ** 63n]
    const asReturned = (value: unknown): unknown =>
      typeof value === 'boolean' || (typeof value === 'bigint' && Number.isSafeInteger(Number(value)))
        ? Number(value)
        : value
    const expectRoundTrip = async (values: readonly unknown[]): Promise<void> => {
      const row = await db.select(values)
      expect(row).toHaveLength(values.length)
      for (const [index, actual] of row.entries()) {
        const expected = asReturned(values[index])
        if (!(expected instanceof Uint8Array)) expect(actual).toBe(expected)
        else {
          expect(actual?.constructor).toBe(Uint8Array)
          expect(Buffer.compare(actual as Uint8Array, expected)).toBe(0)
        }
      }
    }
    const { MAX_VALUE, MAX_SAFE_INTEGER } = Number
    const TEXTS = ['', '\0', 'a\0b', '👩‍👩‍👧‍👦', 'שלום עולם', 'x'.repeat(1 << 20), '\u2028', '\ufeff']
    const BLOBS = [new Uint8Array(), new Uint8Array(1 << 20).fill(7), Buffer.from('baton')]

    test.each<[string, readonly unknown[], fc.Arbitrary<unknown>]>([
      [
        '64-bit integers',
        [two63 - 1n, -two63, two53, two53 + 1n, two53 - 1n, -two53 - 1n],
        fc.bigInt({ min: -two63, max: two63 - 1n }),
      ],
      [
        'numbers',
        [-0, 0, 5e-324, MAX_VALUE, MAX_SAFE_INTEGER, 0.1, -1.5],
        fc.double({ noNaN: true, noDefaultInfinity: true }),
      ],
      ['texts', TEXTS, fc.string({ unit: 'binary' })],
      ['blobs', BLOBS, fc.uint8Array()],
      ['booleans and null', [true, false, null], fc.boolean()],
    ])('%s round-trip', async (_, values, arbitrary) => {
      await expectRoundTrip(values)
      const roundTrips = fc.asyncProperty(arbitrary, (value) => expectRoundTrip([value]))
      await fc.assert(roundTrips, { numRuns: 50 })
    })

    test.each([
      ['NaN', Number.NaN, RangeError],
      ['Infinity', Number.POSITIVE_INFINITY, RangeError],
      ['-Infinity', Number.NEGATIVE_INFINITY, RangeError],
      ['2^63', two63, RangeError],
      ['-2^63 - 1', -two63 - 1n, RangeError],
      ['an object', { a: 1 }, TypeError],
      ['undefined', undefined, TypeError],
      ['a lone surrogate', '\ud800', RangeError],
      ['an invalid Date', new Date(Number.NaN), Error],
    ])('%s is rejected before anything is sent, and a transaction continues', async (_, value, type) => {
      const expectRejected = async (on: Executor): Promise<void> => {
        const error = unwrap(await catchError(on.select([1, value])))
        expect(error).toBeInstanceOf(type)
        expect((error as Error).message).toMatch(/^parameter 2: /)
      }
      expect(await countRequestsOf(() => expectRejected(db))).toBe(0)
      await db.transaction(async (tx) => {
        await tx.insert('a')
        await expectRejected(tx)
      })
      expect(await db.names()).toEqual(['a'])
    })
  })

  describe('transactions', () => {
    test('two statements take three requests; the value of the callback is returned', async () => {
      let value: unknown
      const requests = await countRequestsOf(async () => {
        value = await db.transaction(async (tx) => {
          await tx.insert('a')
          await tx.insert('b')
          return 'done'
        })
      })
      expect([requests, value, await db.names()]).toEqual([3, 'done', ['a', 'b']])
    })

    test('no statement takes no request', async () => {
      const ownError = new Error('own error')
      const requests = await countRequestsOf(async () => {
        await db.transaction(async () => {})
        await expect(db.transaction(() => Promise.reject(ownError))).rejects.toBe(ownError)
      })
      expect(requests).toBe(0)
    })

    test.skipIf(isDropIn).each(['commit', 'END', '-- enough\nrollback', 'begin'])(
      '%j as a statement is rejected, and the transaction continues',
      async (control) => {
        await db.transaction(async (tx) => {
          await tx.insert('a')
          await expectRejection(tx.run(control), { name: 'TypeError' })
          await tx.insert('b')
        })
        const failing = db.transaction(async (tx) => {
          await tx.insert('c')
          await tx.run(control)
        })
        await expectRejection(failing, { name: 'TypeError' })
        expect(await db.names()).toEqual(['a', 'b'])
      },
    )

    test("the callback's error rolls back and is thrown unchanged", async () => {
      const ownError = new Error('own error')
      const failing = db.transaction(async (tx) => {
        await tx.insert('a')
        throw ownError
      })
      await expect(failing).rejects.toBe(ownError)
      expect(await db.names()).toEqual([])
    })

    test('a query outside of the transaction does not see its changes before the commit', async () => {
      await db.insert('before')
      await db.transaction(async (tx) => {
        await tx.insert('inside')
        expect(await db.names()).toEqual(['before'])
      })
      expect(await db.names()).toEqual(['before', 'inside'])
    })

    test('no update of concurrent read-modify-write transactions is lost', async () => {
      await db.insert('0')
      const increment = (): Promise<unknown> =>
        db.transaction(async (tx) => {
          const [count] = await tx.names()
          await tx.run(`update item set name = '${Number(count) + 1}'`)
        })
      await Promise.all(Array.from({ length: 5 }, increment))
      expect(await db.names()).toEqual(['5'])
    })

    test('statements started together run in order, even after one that fails', async () => {
      let outcomes: unknown
      await db.transaction(async (tx) => {
        outcomes = await Promise.allSettled([
          tx.insert('a'),
          expectRejection(tx.run('selec'), { code: 'SQL_PARSE_ERROR' }),
          expectRejection(tx.insert('a'), { extendedCode: CONSTRAINTS.unique }),
          tx.insert('b'),
          tx.names(),
        ])
      })
      const fulfilled = { status: 'fulfilled' }
      expect(outcomes).toMatchObject([fulfilled, fulfilled, fulfilled, fulfilled, { value: ['a', 'b'] }])
      expect(await db.names()).toEqual(['a', 'b'])
    })

    test('an ended transaction rejects later calls', async () => {
      let insertLater = (): Promise<unknown> => Promise.resolve()
      await db.transaction(async (tx) => {
        await tx.insert('a')
        insertLater = () => tx.insert('b')
      })
      await expect(insertLater()).rejects.toThrow()
      expect(await db.names()).toEqual(['a'])
    })

    test('a commit that the database rejects keeps nothing', async () => {
      const failing = db.transaction(async (tx) => {
        await tx.insert('a')
        await tx.run('insert into part values (-1)')
      })
      await expectRejection(failing, { extendedCode: CONSTRAINTS.foreignKey })
      await db.transaction((tx) => tx.insert('b'))
      expect(await db.names()).toEqual(['b'])
    })

    test('PRAGMA foreign_keys, which SQLite ignores there, is rejected', async () => {
      const message = expect.stringContaining('has no effect inside a transaction') as string
      await expectRejection(
        db.transaction((tx) => tx.run('pragma foreign_keys = off')),
        { message, ...(!isDropIn && { name: 'TypeError' }) },
      )
    })
  })

  describe('a transaction that the server ended', () => {
    const begin = async (tx: Executor): Promise<void> => {
      await tx.insert('a')
      await expectRejection(tx.run(ROLLS_BACK), { extendedCode: CONSTRAINTS.unique })
    }
    const lost = { name: 'StreamError', code: 'TRANSACTION_LOST' }

    test('rejects later statements; nothing is written outside of it', async () => {
      const failing = db.transaction(async (tx) => {
        await begin(tx)
        await tx.insert('b')
      })
      await expectRejection(failing, lost)
      expect(await db.names()).toEqual([])
    })

    test('rejects the commit', async () => {
      await expectRejection(db.transaction(begin), lost)
      expect(await db.names()).toEqual([])
    })

    test("does not replace the callback's error", async () => {
      const ownError = new Error('own error')
      const failing = db.transaction(async (tx) => {
        await begin(tx)
        await expectRejection(tx.insert('b'), lost)
        throw ownError
      })
      await expect(failing).rejects.toBe(ownError)
      expect(await db.names()).toEqual([])
    })
  })

  describe.skipIf(isDropIn)('a transaction that exceeds its time limit', () => {
    useOwnDatabases()

    test('because `db` is used inside it is lost, with an error that states the cause', async () => {
      const limited = connectWith({ transactionTimeoutMs: 300 })
      const failing = limited.transaction(async (tx) => {
        await tx.insert('inside')
        await limited.insert('forgotten')
      })
      await expect(failing).rejects.toThrow(
        /another call of this client waited for the write lock.*own handle/,
      )
      await limited.close()
      await db.insert('later')
      expect(await db.names()).toEqual(['forgotten', 'later'])
    })

    test('cannot commit, and none of it is kept', async () => {
      const { promise: expired, resolve } = Promise.withResolvers<void>()
      const limited = connectWith({
        transactionTimeoutMs: 100,
        observe: ({ type }) => void (type === 'transaction:lost' && resolve()),
      })
      const failing = limited.transaction(async (tx) => {
        await tx.insert('a')
        await expired
      })
      await expectRejection(failing, { name: 'StreamError', code: 'TRANSACTION_EXPIRED' })
      expect(await db.names()).toEqual([])
      await limited.close()
    })
  })

  describe('a request that fails', () => {
    useOwnDatabases()

    const unknown = { name: 'TransportError', code: 'NETWORK', outcome: 'unknown' }

    test('a commit whose response was lost is reported as unknown', async () => {
      faults = ['none', 'drop-after']
      await expectRejection(
        db.transaction((tx) => tx.insert('a')),
        unknown,
      )
      expect(await db.names()).toEqual(['a'])
    })

    test("a lost statement ends the transaction; later calls are rejected, and the callback's error is kept", async () => {
      const ownError = new Error('own error')
      faults = ['none', 'drop-after']
      const failing = db.transaction(async (tx) => {
        await tx.insert('a')
        await expectRejection(tx.insert('b'), { code: 'TRANSACTION_LOST' })
        await expect(tx.insert('c')).rejects.toThrow()
        if (canNest) await expect(nest(tx, (inner) => inner.insert('d'))).rejects.toThrow()
        throw ownError
      })
      await expect(failing).rejects.toBe(ownError)
      // the server drops an idle stream with its transaction; a read does not have to wait for that
      expect(await db.names()).toEqual([])
    })

    test("a rollback that does not arrive does not replace the callback's error", async () => {
      const ownError = new Error('own error')
      faults = ['none', 'drop-before']
      const failing = db.transaction(async (tx) => {
        await tx.insert('a')
        throw ownError
      })
      await expect(failing).rejects.toBe(ownError)
      expect(await db.names()).toEqual([])
    })

    test('a read is repeated; a write is not, and nor is a batch', async () => {
      faults = ['drop-after']
      expect(await db.names()).toEqual([])
      faults = ['drop-before']
      await expectRejection(db.insert('lost'), { code: 'NETWORK' })
      faults = ['drop-after']
      await expectRejection(db.insert('a'), unknown)
      faults = ['drop-after']
      await expectRejection(db.insertBatch(['b', 'c']), unknown)
      expect(await db.names()).toEqual(['a', 'b', 'c'])
    })
  })

  describe('batches', () => {
    test('are atomic and one request, and name the statement that failed', async () => {
      expect(await countRequestsOf(() => db.insertBatch(['a', 'b']))).toBe(1)
      const failing = db.insertBatch(['c', 'a', 'd'])
      await expectRejection(failing, { statementIndex: 1, extendedCode: CONSTRAINTS.unique })
      expect(await countRequestsOf(() => db.insertBatch([]))).toBe(0)
      expect(await db.names()).toEqual(['a', 'b'])
    })

    test('are one request in a transaction, too', async () => {
      const requests = await countRequestsOf(() =>
        db.transaction(async (tx) => {
          await tx.insertBatch(['a', 'b'])
          if (canNest) await nest(tx, (inner) => inner.insertBatch(['c']))
        }),
      )
      expect([requests, await db.names()]).toEqual(canNest ? [3, ['a', 'b', 'c']] : [2, ['a', 'b']])
    })
  })

  describe.runIf(canNest)('nested transactions', () => {
    test('take no additional requests', async () => {
      const requests = await countRequestsOf(() =>
        db.transaction(async (tx) => {
          await tx.insert('a')
          await nest(tx, (inner) => inner.insert('b'))
        }),
      )
      expect([requests, await db.names()]).toEqual([3, ['a', 'b']])
    })

    test('undo only their own changes', async () => {
      await db.transaction(async (tx) => {
        await tx.insert('a')
        const undone = nest(tx, async (inner) => {
          await inner.insert('b')
          await nest(inner, (innermost) => innermost.insert('c'))
          throw new Error('undo')
        })
        await expect(undone).rejects.toThrow('undo')
        await nest(tx, async (inner) => {
          await inner.insert('d')
          await nest(inner, (innermost) => innermost.insert('e'))
        })
      })
      expect(await db.names()).toEqual(['a', 'd', 'e'])
    })

    test('that are started together run one at a time; statements of the outer one wait for them', async () => {
      await db.transaction(async (tx) => {
        const calls = ['a', 'b', 'c', 'd'].map((name, index) =>
          nest(tx, async (inner) => {
            await inner.insert(name)
            await inner.insert(`${name}${name}`)
            if (index % 2 === 1) throw new Error('undo')
          }),
        )
        await Promise.allSettled([...calls, tx.insert('outer')])
      })
      expect([...(await db.names())].sort()).toEqual(['a', 'aa', 'c', 'cc', 'outer'])
    })

    test('an error that the callback catches undoes only its statement', async () => {
      await db.transaction(async (tx) => {
        await nest(tx, async (inner) => {
          await inner.insert('a')
          await expect(inner.insert('a')).rejects.toThrow()
        })
        await expect(
          nest(tx, async (inner) => {
            await inner.insert('undone')
            await inner.insert('undone')
          }),
        ).rejects.toThrow()
        await expect(tx.insert('a')).rejects.toThrow()
      })
      expect(await db.names()).toEqual(['a'])
    })
  })
}
