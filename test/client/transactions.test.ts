import {
  type ClientConfig,
  createClient,
  executeMultiple,
  readRows,
  SqlError,
  StreamError,
} from '@batonsql/core'
import { openStream, type Stream } from '@batonsql/core/adapter'
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { FaultProxy, NO_FAULT } from '../support/fault-proxy.ts'
import { createClientWithHeldResponses } from '../support/faulty-database.ts'
import { collect, countRequests, readColumn } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

const { database, db } = await openTestClient()

beforeEach(async () => {
  await db.batch([
    'drop table if exists child',
    'drop table if exists t',
    'create table t (a integer primary key, b text unique)',
    'create table child (t integer references t (a) deferrable initially deferred)',
  ])
})
const readValues = () => readColumn(db, 'select b from t order by a')
const streamClosed = { code: 'STREAM_CLOSED' }
const insert = (b: string) => ({ sql: 'insert into t (b) values (?)', args: [b] })

test('a read-only transaction does not wait for those that write', async () => {
  const read = Promise.withResolvers<void>()
  // two transactions may wait for the lock at a time, and the others wait for these
  const writers = [1, 2].map(() =>
    db.transaction(async (tx) => {
      await tx.execute(insert(String(Math.random())))
      await read.promise
    }),
  )
  await db.transaction((tx) => tx.execute('pragma table_info(t)'), { mode: 'readonly' }).finally(read.resolve)
  await Promise.all(writers)
})

test('a statement whose error is caught leaves the transaction usable', async () => {
  await db.transaction(async (tx) => {
    await tx.execute(insert('one'))
    const violation = { code: 'SQLITE_CONSTRAINT', constraint: { columns: ['b'] } }
    await expect(tx.execute(insert('one'))).rejects.toMatchObject(violation)
    await expect(tx.execute('selec')).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR' })
    await tx.execute(insert('two'))
  })
  expect(await readValues()).toEqual(['one', 'two'])
})

test('BEGIN is sent again if the parser rejects the first statement', async () => {
  await db.transaction(async (tx) => {
    await tx.execute('selec').catch(() => {})
    await tx.execute(insert('one'))
  })
  expect(await readValues()).toEqual(['one'])
})

test.each([
  ['OR ROLLBACK', "insert or rollback into t (b) values ('one')"],
  ['RAISE(ROLLBACK)', "insert into t (b) values ('forbidden')"],
])('a transaction is not torn when %s rolls it back, even if the error is swallowed', async (_, cause) => {
  await db.execute(
    "create trigger no before insert on t when new.b = 'forbidden' begin select raise(rollback, 'no'); end",
  )
  const caught: unknown[] = []
  const transaction = db.transaction(async (tx) => {
    await tx.execute(insert('one'))
    await tx.execute(cause).catch((error: unknown) => caught.push(error))
    await tx.execute(insert('two')).catch((error: unknown) => caught.push(error))
    await tx.execute(insert('three')).catch((error: unknown) => caught.push(error))
  })
  await expect(transaction).rejects.toMatchObject({ name: 'StreamError', code: 'TRANSACTION_LOST' })
  const codes = caught.map((error) => (error as SqlError).code)
  expect(codes).toEqual(['SQLITE_CONSTRAINT', 'TRANSACTION_LOST', 'TRANSACTION_LOST'])
  expect(await readValues()).toEqual([])
})

test('a transaction is not torn if a statement that rolls back is queued together with others', async () => {
  await db.execute(insert('one'))
  const transaction = db.transaction((tx) =>
    Promise.allSettled([
      tx.execute(insert('two')),
      tx.execute("insert or rollback into t (b) values ('one')"),
      tx.execute(insert('three')),
    ]),
  )
  await expect(transaction).rejects.toBeInstanceOf(StreamError)
  expect(await readValues()).toEqual(['one'])
})

test('rollback() ends a transaction without an error', async () => {
  const transaction = db.transaction(async (tx) => {
    await tx.execute(insert('one'))
    await tx.rollback()
    await expect(tx.execute(insert('two'))).rejects.toMatchObject(streamClosed)
    return 'value'
  })
  expect(await transaction).toBe('value')
  expect(await readValues()).toEqual([])
})

test('a transaction cannot be used after its callback', async () => {
  const { tx } = await db.transaction((handle) => ({ tx: handle }))
  await expect(tx.execute('select 1')).rejects.toMatchObject(streamClosed)
  await expect(tx.batch(['select 1'])).rejects.toMatchObject(streamClosed)
  await expect(tx.savepoint(() => 1)).rejects.toMatchObject(streamClosed)
})

test.each(['begin', 'COMMIT;', '/* x */ rollback', 'end transaction'])(
  '%s is rejected inside and outside a transaction',
  async (sql) => {
    await expect(db.execute(sql)).rejects.toThrow(/transaction\(\)/)
    await expect(db.batch(['select 1', sql])).rejects.toThrow(/transaction\(\)/)
    await expect(db.transaction((tx) => tx.execute(sql))).rejects.toThrow(/transaction\(\)/)
  },
)

test('rollback() of a savepoint undoes only that savepoint', async () => {
  await db.transaction(async (tx) => {
    await tx.execute(insert('one'))
    await tx.savepoint(async (inner) => {
      await inner.execute(insert('two'))
      await inner.rollback()
    })
  })
  expect(await readValues()).toEqual(['one'])
})

test('savepoints can be written as SQL', async () => {
  await db.transaction(async (tx) => {
    await tx.execute('savepoint mine')
    await tx.execute(insert('one'))
    await tx.execute('rollback to mine')
    await tx.execute(insert('two'))
    await tx.execute('release mine')
  })
  expect(await readValues()).toEqual(['two'])
})

test('a batch inside a transaction stops at the first failure, and does not end the transaction', async () => {
  await db.transaction(async (tx) => {
    const failed = tx.batch([insert('one'), insert('one'), insert('two')])
    await expect(failed).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT', statementIndex: 1 })
    await tx.batch([insert('three'), insert('four')])
  })
  expect(await readValues()).toEqual(['one', 'three', 'four'])
})

test('a batch is atomic and reports which statement failed', async () => {
  const failed = db.batch([insert('one'), { sql: 'select 5 as five' }, insert('one'), insert('two')])
  const violation = { code: 'SQLITE_CONSTRAINT', statementIndex: 2, sql: insert('one').sql }
  await expect(failed).rejects.toMatchObject(violation)
  const error = (await failed.catch((reason: unknown) => reason)) as SqlError
  expect(error.results).toMatchObject([{ rowsAffected: 1 }, { rows: [{ five: 5 }] }])
  expect(await readValues()).toEqual([])
})

test.each<[string, (string | ReturnType<typeof insert>)[], object]>([
  ['the parser rejects one statement', [insert('one'), 'selec'], { code: 'SQL_PARSE_ERROR' }],
  ['the commit fails', [insert('one'), 'insert into child values (99)'], { code: 'SQLITE_CONSTRAINT' }],
  [
    'it rolls itself back in the middle',
    [insert('one'), "insert or rollback into t (b) values ('one')", insert('two')],
    { statementIndex: 1 },
  ],
])('a batch keeps nothing if %s', async (_, batch, rejection) => {
  await expect(db.batch(batch)).rejects.toMatchObject(rejection)
  expect(await readValues()).toEqual([])
})

test('supports all transaction modes', async () => {
  await db.transaction((tx) => tx.execute(insert('deferred')), { mode: 'deferred' })
  const reading = db.transaction((tx) => tx.execute('select count(*) as n from t'), { mode: 'readonly' })
  expect((await reading).rows).toEqual([{ n: 1 }])
  expect(await db.batch(['select 1 as a'], { mode: 'readonly' })).toMatchObject([{ rows: [{ a: 1 }] }])
})

test('a stream recognizes BEGIN, COMMIT and ROLLBACK in SQL', async () => {
  await using stream = openStream(db)
  expect(stream.inTransaction).toBe(false)
  await stream.execute('begin')
  expect(stream.inTransaction).toBe(true)
  await stream.execute(insert('one'))
  await stream.execute('commit')
  expect(stream.inTransaction).toBe(false)
  await stream.execute('begin immediate')
  await stream.execute(insert('two'))
  await stream.execute('rollback')
  await stream.execute('rollback')
  await stream.batch([insert('three'), insert('four')])
  await expect(stream.batch([insert('five'), insert('five')])).rejects.toMatchObject({ statementIndex: 1 })
  expect(stream.isOpen).toBe(true)
  await expect(stream.execute('commit')).rejects.toThrow(TypeError)
  expect(await readValues()).toEqual(['one', 'three', 'four'])
})

test('a failed commit can be repaired and retried', async () => {
  await using stream = openStream(db)
  stream.begin()
  await stream.execute('insert into child values (1)')
  await expect(stream.commit()).rejects.toBeInstanceOf(SqlError)
  expect(stream.inTransaction).toBe(true)
  await stream.execute("insert into t values (1, 'parent')")
  await stream.commit()
  expect(await readValues()).toEqual(['parent'])
})

test('SAVEPOINT outside of a transaction is rejected, because it would begin a transaction that the client does not track', async () => {
  await using stream = openStream(db)
  const sql = '/* mine */ savepoint a'
  await expect(stream.execute(sql)).rejects.toThrow(TypeError)
  await expect(stream.chain([sql, insert('lost')])).rejects.toThrow(TypeError)
  await expect(readRows(stream, sql).next()).rejects.toThrow(TypeError)
  await expect(readRows(db, sql).next()).rejects.toThrow(TypeError)
  await expect(db.execute(sql)).rejects.toThrow(TypeError)
  await stream.execute(insert('kept'))
  stream.begin()
  await stream.execute('savepoint a')
  await stream.execute(insert('undone'))
  await stream.execute('rollback to a')
  await stream.execute('release a')
  await stream.commit()
  await db.batch(['savepoint a', insert('in a batch'), 'release a'])
  expect(await readValues()).toEqual(['kept', 'in a batch'])
})

/** A statement with a response of several MB. The server allows one such response, but not two. */
const LARGE_READ = "select printf('%.*c', 4900000, 'x') as a union all select 'y'"
/** A statement whose response is too large. */
const TOO_LARGE = Array.from({ length: 3 }, () => "select printf('%.*c', 4900000, 'x')").join(' union all ')

test('a write in the same request as a response that is too large is not retried, and none of the transaction is kept', async () => {
  const transaction = db.transaction(async (tx) => {
    await tx.execute('select 1')
    await Promise.all([tx.execute(insert('once')), ...[1, 2, 3].map(() => tx.execute(LARGE_READ))])
  })
  const cause = { code: 'RESPONSE_TOO_LARGE' }
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST', outcome: 'not_applied', cause })
  expect(await readValues()).toEqual([])
})

test('a read whose response is too large does not affect the transaction', async () => {
  await db.transaction(async (tx) => {
    await tx.execute(insert('one'))
    await expect(tx.execute(TOO_LARGE)).rejects.toMatchObject({ code: 'RESPONSE_TOO_LARGE' })
    await tx.execute(insert('two'))
  })
  expect(await readValues()).toEqual(['one', 'two'])
})

test('a savepoint whose response is too large is not partially applied', async () => {
  const transaction = db.transaction(async (tx) => {
    await tx.execute(insert('one'))
    await tx.savepoint((inner) => inner.batch([insert('undone'), TOO_LARGE])).catch(() => {})
    await tx.execute(insert('two'))
  })
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  expect(await readValues()).toEqual([])
})

test('aborting a statement before it is sent cancels neither BEGIN nor savepoints', async () => {
  const signal = AbortSignal.abort(new Error('changed my mind'))
  await db.transaction(async (tx) => {
    tx.execute(insert('zero'), undefined, { signal }).catch(() => {})
    await tx.execute(insert('one'))
    const undone = tx.savepoint(async (inner) => {
      inner.execute(insert('in vain'), undefined, { signal }).catch(() => {})
      await inner.execute(insert('in the savepoint'))
      throw new Error('undo')
    })
    await expect(undone).rejects.toThrow('undo')
    tx.execute(insert('in vain'), undefined, { signal }).catch(() => {})
    await tx.execute(insert('two'))
  })
  expect(await readValues()).toEqual(['one', 'two'])
})

test('a queued statement rejects at its timeout, or when its signal is aborted', async () => {
  await using proxy = await FaultProxy.start(database.url)
  const held = createClientWithHeldResponses(database, proxy, (body) => body.includes('running'))
  await using client = held.db
  await client.transaction(async (tx) => {
    await tx.execute('select 1')
    const running = tx.execute("select 'running'")
    await held.arrived
    const reason = new Error('changed my mind')
    const controller = new AbortController()
    const { signal } = controller
    const timeout = { code: 'TIMEOUT', outcome: 'not_applied' }
    const timedOut = expect(tx.execute(insert('late'), undefined, { timeoutMs: 20 })).rejects.toMatchObject(
      timeout,
    )
    const aborted = expect(tx.execute(insert('aborted'), undefined, { signal })).rejects.toBe(reason)
    const unlimited = tx.execute(insert('unlimited'))
    controller.abort(reason)
    await Promise.all([timedOut, aborted])
    held.releaseResponse()
    await Promise.all([running, unlimited])
  })
  expect(await readValues()).toEqual(['unlimited'])
})

test('a call on the outer handle inside a savepoint waits only until its timeout', async () => {
  await db.transaction(async (tx) => {
    await tx.savepoint(async () => {
      const late = tx.execute(insert('one'), undefined, { timeoutMs: 30 })
      await expect(late).rejects.toMatchObject({ code: 'TIMEOUT' })
      const reason = new Error('changed my mind')
      const call = tx.execute(insert('one'), undefined, { signal: AbortSignal.abort(reason) })
      await expect(call).rejects.toBe(reason)
    })
  })
  await using clientWithTimeout = createClient({ ...database.config, transactionTimeoutMs: 80 })
  const stuck = clientWithTimeout.transaction(async (tx) => {
    await tx.execute(insert('one'))
    await tx.savepoint(() => tx.execute(insert('two')))
  })
  await expect(stuck).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
  const client = createClient(database.config)
  const opened = Promise.withResolvers<void>()
  const hanging = client.transaction(async (tx) => {
    await tx.execute('select 1')
    opened.resolve()
    await tx.savepoint(() => tx.execute(insert('two')))
  })
  const rejected = expect(hanging).rejects.toThrow()
  await opened.promise
  await client.close()
  await rejected
})

test("a failing token or a closed client does not replace the user's error", async () => {
  const ownError = new Error('own error')
  let calls = 0
  await using flaky = createClient({
    ...database.config,
    authToken: () => {
      calls += 1
      if (calls > 1) throw new Error('the token service is down')
      return database.authToken ?? ''
    },
  })
  const transaction = flaky.transaction(async (tx) => {
    await tx.execute(insert('one'))
    throw ownError
  })
  await expect(transaction).rejects.toBe(ownError)
  const client = createClient(database.config)
  const interrupted = client.transaction(async (tx) => {
    await tx.execute(insert('one'))
    await client.close()
    throw ownError
  })
  await expect(interrupted).rejects.toBe(ownError)
})

test('no transaction can begin on a lost or closed stream', async () => {
  const stream = openStream(db)
  await stream.close()
  expect(() => stream.begin()).toThrow(StreamError)
  await expect(stream.execute('begin')).rejects.toMatchObject(streamClosed)
})

test('an aborted call also ends the calls that share its request, each with its own error', async () => {
  const reason = new Error('reason of the first')
  const controller = new AbortController()
  const released = Promise.withResolvers<void>()
  const proxy = await FaultProxy.start(database.config.url)
  onTestFinished(() => proxy.close())
  // its response is in flight when the first call is aborted
  proxy.next = (body) => {
    if (!body.includes('as held')) return NO_FAULT
    controller.abort(reason)
    return { kind: 'hold-response', until: released.promise }
  }
  await using client = createClient({ ...database.config, url: proxy.url })
  const transaction = client.transaction(async (tx) => {
    await tx.execute('select 1')
    const first = tx.execute('select 1 as held', [], { signal: controller.signal })
    const second = tx.execute('select 2')
    const [one, two] = await Promise.allSettled([first, second])
    expect(one).toMatchObject({ status: 'rejected', reason })
    expect(two).toMatchObject({ status: 'rejected', reason: { code: 'TRANSACTION_LOST', cause: reason } })
    released.resolve()
  })
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
})

test("an error in one call's options affects only that call", async () => {
  await db.transaction(async (tx) => {
    const [bad, good] = await Promise.allSettled([
      tx.execute(insert('bad'), undefined, { timeoutMs: 0 }),
      tx.execute(insert('good')),
    ])
    expect(bad).toMatchObject({ status: 'rejected', reason: expect.any(TypeError) })
    expect(good.status).toBe('fulfilled')
  })
  expect(await readValues()).toEqual(['good'])
})

test('statements queued after a rejected COMMIT do not run inside the transaction', async () => {
  await using stream = openStream(db)
  stream.begin()
  await stream.execute(insert('one'))
  await stream.execute('insert into child values (99)')
  const [committed, queued] = await Promise.allSettled([stream.commit(), stream.execute(insert('log'))])
  const violation = { extendedCode: 'SQLITE_CONSTRAINT_FOREIGNKEY' }
  expect(committed).toMatchObject({ status: 'rejected', reason: violation })
  expect(queued).toMatchObject({ status: 'rejected', reason: { outcome: 'not_applied' } })
  expect(stream.inTransaction).toBe(true)
  await stream.execute('delete from child')
  await stream.commit()
  expect(await readValues()).toEqual(['one'])
})

test('a transaction whose COMMIT was rejected expires while it is idle, like any other', async () => {
  const lost = Promise.withResolvers<void>()
  const observe: ClientConfig['observe'] = ({ type }) => {
    if (type === 'transaction:lost') lost.resolve()
  }
  await using clientWithTimeout = createClient({ ...database.config, transactionTimeoutMs: 100, observe })
  await using stream = openStream(clientWithTimeout)
  stream.begin()
  await stream.execute('insert into child values (99)')
  await expect(stream.commit()).rejects.toBeInstanceOf(SqlError)
  await lost.promise
  await expect(stream.execute('select 1')).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
})

test('savepoints outside a transaction are an error', async () => {
  await using stream = openStream(db)
  expect(() => stream.savepoint('a')).toThrow(TypeError)
})

test('a read-only batch does not wait for the write lock, unless its mode is immediate; a batch that may write does', async () => {
  await using other = createClient(database.config)
  await db.transaction(async (tx) => {
    await tx.execute(insert('held'))
    const results = await other.batch(['select count(*) as n from t', 'values (1)'], { timeoutMs: 2_000 })
    expect(results[0]?.rows).toEqual([{ n: 0 }])
    const timeout = { code: 'TIMEOUT' }
    await expect(other.batch(['select 1', insert('late')], { timeoutMs: 150 })).rejects.toMatchObject(timeout)
    const blocked = other.batch(['select 1'], { mode: 'immediate', timeoutMs: 150 })
    await expect(blocked).rejects.toMatchObject(timeout)
  })
})

test.each([
  ['an unknown mode', () => db.transaction(() => {}, { mode: 'write' as 'immediate' }), 'mode must be'],
  ['an unknown mode of a batch', () => db.batch([], { mode: 'write' as 'immediate' }), 'mode must be'],
  ['a mode in place of a callback', () => db.transaction('write' as never), 'expected a callback'],
  ['a statement in place of a batch', () => db.batch('select 1' as never), 'an array of statements'],
])('%s is rejected before anything is sent', async (_, call, message) => {
  const before = database.requestCount()
  await expect(call()).rejects.toThrow(message)
  expect(database.requestCount()).toBe(before)
})

test.each(['as its first calls', 'after a write'])(
  'reads queued together in a transaction, %s, succeed even if their results are too large for one response',
  async (when) => {
    const lengths = await db.transaction(async (tx) => {
      if (when === 'after a write') await tx.execute('insert into t default values')
      const reads = Array.from({ length: 5 }, () => tx.execute('select hex(zeroblob(2400000)) as x'))
      const results = await Promise.all(reads)
      expect(tx.expiresAt).not.toBeNull()
      return results.map(({ rows }) => String(rows[0]?.['x']).length)
    })
    expect(lengths).toEqual([4_800_000, 4_800_000, 4_800_000, 4_800_000, 4_800_000])
  },
)

test('if the results of a batch on a stream are too large, the stream is lost, and no later write is applied', async () => {
  const largeRead = 'select hex(zeroblob(2400000)) as x'
  await using stream = openStream(db)
  const batch = stream.batch(['insert into t default values', largeRead, largeRead, largeRead])
  await expect(batch).rejects.toMatchObject({ code: 'RESPONSE_TOO_LARGE', outcome: 'unknown' })
  // neither the COMMIT nor the ROLLBACK of the batch was executed
  await expect(stream.execute('insert into t default values')).rejects.toMatchObject({ code: 'STREAM_LOST' })
})

test('a concurrent transaction is rejected with a reason, and nothing in it is kept', async () => {
  const transaction = db.transaction((tx) => tx.execute('select 1'), { mode: 'concurrent', maxRetries: 2 })
  const rejection = {
    name: 'SqlError',
    code: 'SQL_PARSE_ERROR',
    outcome: 'not_applied',
    sql: 'BEGIN CONCURRENT',
  }
  const reason = /^mode 'concurrent' needs Turso's engine: SQL string could not be parsed/
  await expect(transaction).rejects.toMatchObject({ ...rejection, message: expect.stringMatching(reason) })
  const batch = db.batch(['select 1'], { mode: 'concurrent' })
  await expect(batch).rejects.toMatchObject({ ...rejection, message: expect.stringMatching(reason) })
})

describe('PRAGMA foreign_keys inside a transaction', () => {
  const PRAGMA = 'pragma foreign_keys = off'
  /** Rebuilds `t`. With foreign keys on, this deletes the rows that refer to it. */
  const REBUILD = [
    'create table t2 (a integer primary key, b text unique)',
    'insert into t2 select * from t',
    'drop table t',
    'alter table t2 rename to t',
  ]
  const onStream = (run: (stream: Stream) => Promise<unknown>) => async () => {
    await using stream = openStream(db)
    return await run(stream)
  }
  const countChildren = async (): Promise<unknown> =>
    (await db.execute('select count(*) from cascading', [], { rowMode: 'array' })).rows[0]?.[0]

  beforeEach(async () => {
    await db.batch([
      'drop table if exists cascading',
      'create table cascading (t integer references t (a) on delete cascade)',
      insert('parent'),
      'insert into cascading select a from t',
    ])
  })
  afterAll(() => db.execute('drop table cascading'))

  test.each<[string, () => Promise<unknown>]>([
    ['a transaction', () => db.transaction((tx) => tx.execute(PRAGMA))],
    ['a batch', () => db.batch([PRAGMA, ...REBUILD])],
    ['a batch of a transaction', () => db.transaction((tx) => tx.batch([PRAGMA, ...REBUILD]))],
    ['a savepoint', () => db.transaction((tx) => tx.savepoint((savepoint) => savepoint.execute(PRAGMA)))],
    ['a cursor', () => db.transaction((tx) => collect(readRows(tx, PRAGMA)))],
    [
      'a stream',
      onStream((stream) => {
        stream.begin()
        return stream.execute(PRAGMA)
      }),
    ],
    ['a batch of a stream', onStream((stream) => stream.batch([PRAGMA, ...REBUILD]))],
  ])('is rejected in %s before anything is sent', async (_, run) => {
    const requests = await countRequests(database, () =>
      expect(run()).rejects.toThrow(/foreign_keys has no effect inside a transaction: use batch/),
    )
    expect([requests, await countChildren()]).toEqual([0, 1])
  })

  test('before a transaction and as an option of a batch, it protects the rows that refer to a rebuilt table', async () => {
    await db.batch(REBUILD, { foreignKeys: 'off' })
    expect(await countChildren()).toBe(1)
    await using stream = openStream(db)
    await stream.execute(PRAGMA)
    stream.begin()
    await stream.batch(REBUILD)
    await stream.commit()
    expect(await countChildren()).toBe(1)
    await executeMultiple(db, `${PRAGMA}; begin; ${REBUILD.join(';')}; commit`)
    expect(await countChildren()).toBe(1)
  })

  test('reading it, and deferring foreign keys, is allowed', async () => {
    await db.transaction(async (tx) => {
      expect((await tx.execute('pragma foreign_keys')).rows).toEqual([{ foreign_keys: 1 }])
      await tx.execute('pragma defer_foreign_keys = on')
    })
  })
})
