import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers'
import { createClient, StreamError } from '@batonsql/core'
import { BatonDialect, batch } from '@batonsql/kysely-dialect'
import { type Generated, Kysely, sql } from 'kysely'
import { beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { openKysely } from './open-kysely.ts'

interface Tables {
  item: { id: Generated<number>; name: string }
}

const { database, db, log, countRequestsOf } = await openKysely<Tables>([
  'create table item (id integer primary key, name text not null unique)',
  'create table part (item integer references item (id) deferrable initially deferred)',
])
beforeEach(async () => {
  await db.deleteFrom('item').execute()
  log.length = 0
})

const selectNames = async (): Promise<string[]> => {
  const rows = await db.selectFrom('item').select('name').orderBy('name').execute()
  return rows.map((row) => row.name)
}
const insert = (executor: Kysely<Tables>, name: string): Promise<unknown> =>
  executor.insertInto('item').values({ name }).execute()
const rollBackOnConflict = sql`insert or rollback into item (name) values ('a')`

describe('transactions', () => {
  test('begin, commit and rollback are logged', async () => {
    const insertSql = 'insert into "item" ("name") values (?)'
    await db.transaction().execute((trx) => insert(trx, 'a'))
    expect(log).toEqual(['begin immediate', insertSql, 'commit'])
    await expect(db.transaction().execute((trx) => insert(trx, 'a'))).rejects.toThrow('UNIQUE')
    expect(log.slice(3)).toEqual(['begin immediate', insertSql, 'rollback'])
  })

  test('access mode and isolation level are accepted; a read-only transaction rejects writes', async () => {
    await db
      .transaction()
      .setAccessMode('read write')
      .setIsolationLevel('serializable')
      .execute((trx) => insert(trx, 'a'))
    const readOnly = db.transaction().setAccessMode('read only')
    const writing = readOnly.execute(async (trx) => {
      expect(await trx.selectFrom('item').select('name').execute()).toEqual([{ name: 'a' }])
      await insert(trx, 'b')
    })
    await expect(writing).rejects.toThrow('read only')
    const batching = readOnly.execute((trx) => batch(trx, [trx.deleteFrom('item')]))
    await expect(batching).rejects.toThrow('read only')
    expect(log).toContain('begin readonly')
    expect(await selectNames()).toEqual(['a'])
  })

  test('queries started together run one at a time', async () => {
    const requests = await countRequestsOf(() =>
      db.transaction().execute((trx) => Promise.all(['a', 'b', 'c'].map((name) => insert(trx, name)))),
    )
    expect(requests).toBe(4)
    expect(await selectNames()).toEqual(['a', 'b', 'c'])
  })

  test.each([
    ['a query', (trx: Kysely<Tables>) => insert(trx, 'a')],
    ['a batch', (trx: Kysely<Tables>) => batch(trx, [trx.deleteFrom('item')])],
  ])('do not wait for the next turn of the event loop at their end if %s has run', async (_, run) => {
    // the client's own connections would wait for it before they send the next request
    const fetchedDb = new Kysely<Tables>({
      dialect: new BatonDialect({ ...database.config, fetch: (url, init) => fetch(url, init) }),
    })
    const nextTurns = vi.spyOn(timers, 'setImmediate')
    onTestFinished(syncBuiltinESMExports)
    syncBuiltinESMExports()
    await fetchedDb.transaction().execute(run)
    expect(nextTurns).not.toHaveBeenCalled()
    await fetchedDb.transaction().execute(async () => {})
    expect(nextTurns).toHaveBeenCalledOnce()
    await fetchedDb.destroy()
  })

  test("the dialect's mode is used if the transaction has none", async () => {
    await using client = createClient(database.config)
    const queries: string[] = []
    const deferredDb = new Kysely<Tables>({
      dialect: new BatonDialect({ client, transactionMode: 'deferred' }),
      log: (event) => void queries.push(event.query.sql),
    })
    await deferredDb.transaction().execute((trx) => insert(trx, 'a'))
    expect(queries[0]).toBe('begin deferred')
  })
})

describe('a commit that the database rejects', () => {
  const orphan = sql`insert into part values (-1)`
  const violation = { extendedCode: 'SQLITE_CONSTRAINT_FOREIGNKEY' }

  test('cannot be repaired: later queries are rejected until the rollback', async () => {
    const trx = await db.startTransaction().execute()
    await orphan.execute(trx)
    await expect(trx.commit().execute()).rejects.toMatchObject(violation)
    await expect(insert(trx, 'a')).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
    await trx.rollback().execute()
    expect(trx.isRolledBack).toBe(true)
    expect(await selectNames()).toEqual([])
  })

  test('leaves the connection usable', async () => {
    await db.connection().execute(async (connection) => {
      const failing = connection.transaction().execute((trx) => orphan.execute(trx))
      await expect(failing).rejects.toMatchObject(violation)
      await insert(connection, 'a')
      await connection.transaction().execute((trx) => insert(trx, 'b'))
    })
    expect(await selectNames()).toEqual(['a', 'b'])
  })
})

describe('controlled transactions', () => {
  test('savepoints undo part of the transaction', async () => {
    const trx = await db.startTransaction().execute()
    await insert(trx, 'a')
    const atSavepoint = await trx.savepoint('here').execute()
    await insert(atSavepoint, 'b')
    const rolledBack = await atSavepoint.rollbackToSavepoint('here').execute()
    await insert(rolledBack, 'c')
    await rolledBack.releaseSavepoint('here').execute()
    await trx.commit().execute()
    expect(await selectNames()).toEqual(['a', 'c'])
    expect(log.slice(0, 7)).toEqual([
      'begin immediate',
      expect.stringContaining('insert'),
      'savepoint "here"',
      expect.stringContaining('insert'),
      'rollback to "here"',
      expect.stringContaining('insert'),
      'release "here"',
    ])
  })

  test('savepoints are sent with the statements around them', async () => {
    const requests = await countRequestsOf(async () => {
      const trx = await db.startTransaction().execute()
      const atSavepoint = await trx.savepoint('a').execute()
      await insert(atSavepoint, 'a')
      await atSavepoint.releaseSavepoint('a').execute()
      await trx.commit().execute()
    })
    expect(requests).toBe(2)
  })

  test('an unknown or released savepoint is rejected, and the transaction continues', async () => {
    const trx = await db.startTransaction().execute()
    const atSavepoint = await trx.savepoint('here').execute()
    await insert(atSavepoint, 'a')
    await atSavepoint.releaseSavepoint('here').execute()
    await expect(atSavepoint.rollbackToSavepoint('here').execute()).rejects.toThrow('here')
    await expect(trx.releaseSavepoint('nowhere' as never).execute()).rejects.toThrow('nowhere')
    await insert(trx, 'b')
    await trx.commit().execute()
    expect(await selectNames()).toEqual(['a', 'b'])
  })

  test('savepoint names are compared as in SQLite, which ignores the case of ASCII letters', async () => {
    const trx = await db.startTransaction().execute()
    const outer = await trx.savepoint('Ä').execute()
    await insert(outer, 'a')
    const inner = await outer.savepoint('a').execute()
    await insert(inner, 'b')
    await inner.releaseSavepoint('A' as never).execute()
    // rejected at once, because a rejection with the next statement would end the transaction
    await expect(inner.rollbackToSavepoint('a').execute()).rejects.toThrow('no such savepoint: a')
    await expect(trx.rollbackToSavepoint('ä' as never).execute()).rejects.toThrow('no such savepoint: ä')
    await trx.commit().execute()
    expect(await selectNames()).toEqual(['a', 'b'])
  })

  test.each(['commit; insert into item (name) values (2)', 'commit garbage', 'ROLLBACK garbage'])(
    'text after COMMIT or ROLLBACK on a pinned connection is rejected: %j',
    async (text) => {
      await db.connection().execute(async (pinned) => {
        await sql`begin`.execute(pinned)
        await insert(pinned, 'a')
        await expect(sql.raw(text).execute(pinned)).rejects.toThrow(SyntaxError)
        expect(await selectNames()).toEqual([])
        await sql`commit`.execute(pinned)
      })
      expect(await selectNames()).toEqual(['a'])
    },
  )

  test('rolls back, and rejects later queries', async () => {
    const trx = await db.startTransaction().execute()
    await insert(trx, 'a')
    await trx.rollback().execute()
    expect(trx.isRolledBack).toBe(true)
    await expect(insert(trx, 'b')).rejects.toThrow()
    expect(await selectNames()).toEqual([])
  })
})

describe('a transaction that the server ended', () => {
  test('rejects the commit with an error that Kysely treats as a rollback', async () => {
    const trx = await db.startTransaction().execute()
    await insert(trx, 'a')
    await rollBackOnConflict.execute(trx).catch(() => {})
    const error: unknown = await trx
      .commit()
      .execute()
      .catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(StreamError)
    expect(Reflect.get(error as object, Symbol.for('kysely.AbortedTransactionError'))).toBe(true)
    // versions other than 0.29 do not recognize the mark
    expect(trx.isRolledBack).toBe(inject('kysely') === '0.29')
    await trx.rollback().execute()
    expect(trx.isRolledBack).toBe(true)
    expect(log).not.toContain('rollback')
    expect(await selectNames()).toEqual([])
  })
})

describe('db.connection()', () => {
  test('keeps the effect of a session statement, and needs no additional request before it', async () => {
    const requests = await countRequestsOf(() =>
      db.connection().execute(async (connection) => {
        await insert(connection, 'a')
        await sql`pragma foreign_keys = off`.execute(connection)
        expect((await sql`pragma foreign_keys`.execute(connection)).rows).toEqual([{ foreign_keys: 0 }])
        await connection.transaction().execute((trx) => insert(trx, 'b'))
        expect((await sql`pragma foreign_keys`.execute(connection)).rows).toEqual([{ foreign_keys: 0 }])
      }),
    )
    // insert, set, get, insert, commit, get, close
    expect(requests).toBe(7)
    expect((await sql`pragma foreign_keys`.execute(db)).rows).toEqual([{ foreign_keys: 1 }])
  })

  test('keeps the effect of a session statement whose rows are streamed', async () => {
    await db.connection().execute(async (connection) => {
      const pragma = sql`pragma foreign_keys = off`.compile(connection)
      for await (const { rows } of connection.getExecutor().stream(pragma, 1)) expect(rows).toEqual([])
      expect((await sql`pragma foreign_keys`.execute(connection)).rows).toEqual([{ foreign_keys: 0 }])
    })
  })

  test('a read-only transaction pins the connection only until its end', async () => {
    await db.connection().execute(async (connection) => {
      await sql`pragma foreign_keys = on`.execute(connection)
      const reading = connection.transaction().setAccessMode('read only')
      await reading.execute((trx) => trx.selectFrom('item').selectAll().execute())
      await insert(connection, 'a')
      await expect(reading.execute((trx) => insert(trx, 'b'))).rejects.toThrow('read only')
      await sql`begin`.execute(connection)
      await insert(connection, 'c')
      await sql`commit`.execute(connection)
    })
    expect(await selectNames()).toEqual(['a', 'c'])
  })

  test('accepts a new transaction after a lost one', async () => {
    await db.connection().execute(async (connection) => {
      const lostTransaction = connection.transaction().execute(async (trx) => {
        await insert(trx, 'a')
        await rollBackOnConflict.execute(trx).catch(() => {})
        await insert(trx, 'b')
      })
      await expect(lostTransaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
      await connection.transaction().execute((trx) => insert(trx, 'c'))
      await insert(connection, 'd')
    })
    expect(await selectNames()).toEqual(['c', 'd'])
  })

  test('runs handwritten BEGIN and COMMIT as a transaction', async () => {
    await db.connection().execute(async (connection) => {
      await sql`-- by hand
        begin`.execute(connection)
      await insert(connection, 'a')
      expect(await selectNames()).toEqual([])
      await sql`commit`.execute(connection)
      await insert(connection, 'b')
      await sql`begin`.execute(connection)
      await insert(connection, 'c')
      await sql`rollback`.execute(connection)
      await insert(connection, 'd')
    })
    expect(await selectNames()).toEqual(['a', 'b', 'd'])
  })

  test('accepts a handwritten BEGIN after a lost transaction', async () => {
    await db.connection().execute(async (connection) => {
      await sql`begin`.execute(connection)
      await insert(connection, 'a')
      await rollBackOnConflict.execute(connection).catch(() => {})
      await expect(insert(connection, 'b')).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
      await sql`begin`.execute(connection)
      await insert(connection, 'c')
      await sql`commit`.execute(connection)
    })
    expect(await selectNames()).toEqual(['c'])
  })

  test('a transaction left open is rolled back before the connection is released', async () => {
    const requests = await countRequestsOf(() =>
      db.connection().execute(async (connection) => {
        await sql`begin immediate`.execute(connection)
        await insert(connection, 'a')
      }),
    )
    // insert, close
    expect(requests).toBe(2)
    await insert(db, 'b')
    expect(await selectNames()).toEqual(['b'])
  })
})

test('destroy() closes open streams', async () => {
  const otherDb = new Kysely<Tables>({ dialect: new BatonDialect(database.config) })
  const trx = await otherDb.startTransaction().execute()
  await insert(trx, 'a')
  await otherDb.destroy()
  await insert(db, 'b')
  expect(await selectNames()).toEqual(['b'])
})

test('queries of a transaction after destroy() are rejected, even if the client stays open', async () => {
  await using client = createClient(database.config)
  const otherDb = new Kysely<Tables>({ dialect: new BatonDialect({ client }) })
  const trx = await otherDb.startTransaction().execute()
  await insert(trx, 'a')
  await otherDb.destroy()
  await expect(insert(trx, 'b')).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
  expect(await selectNames()).toEqual([])
})
