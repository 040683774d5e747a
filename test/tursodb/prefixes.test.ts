import { createClient, readRows } from '@batonsql/core'
import { describe, expect, test } from 'vitest'
import { requireTursodb, startTursodb } from '../support/tursodb.ts'

// Public servers of this engine, and servers in front of them, add prefixes and codes to its messages.

requireTursodb()

describe.each([
  ['Error executing statement: ', 'SQLITE_ERROR'],
  ['Error executing statement: ', 'EXECUTE_ERROR'],
  ['SQLite error: prepare failed: ', 'PREPARE_ERROR'],
  ['SQLite error: step failed: ', 'BATCH_STEP_ERROR'],
  ['SQLite error: prepare failed: ', 'SQLITE_UNKNOWN'],
])('%s (%s)', (prefix, code) => {
  const start = async () => {
    const server = await startTursodb()
    server.formatError = (message) => ({ message: prefix + message, code })
    const db = createClient({ url: server.url })
    await db.execute('create table t (a unique)')
    return { db, server }
  }

  test('supports read-only transactions, and their rows', async () => {
    const { db, server } = await start()
    await db.transaction(
      async (tx) => {
        expect((await tx.execute('select count(*) as n from t')).rows).toEqual([{ n: 0 }])
        for await (const row of readRows(tx, 'select count(*) as n from t')) expect(row).toEqual({ n: 0 })
      },
      { mode: 'readonly' },
    )
    await db.close()
    expect(server.streamCount).toBe(0)
  })

  test('eight writers of two clients wait for each other', async () => {
    const { db, server } = await start()
    await using other = createClient({ url: server.url })
    const write = (a: number): Promise<unknown> =>
      (a % 2 ? db : other).transaction(async (tx) => {
        await tx.execute('insert into t values (?)', [a])
        await tx.execute('select count(*) from t')
      })
    await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(write))
    const batches = [11, 12, 13, 14].map((a) => db.batch([`insert into t values (${a})`]))
    const statements = [21, 22, 23, 24].map((a) => other.execute(`insert into t values (${a})`))
    await Promise.all([...batches, ...statements])
    expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 16 }])
    await db.close()
  })

  test('reports constraints, and errors without a code of their own', async () => {
    const { db } = await start()
    await db.execute('insert into t values (1)')
    await expect(db.execute('insert into t values (1)')).rejects.toMatchObject({
      code: 'SQLITE_CONSTRAINT',
      outcome: 'not_applied',
      constraint: { kind: 'unique', table: 't', columns: ['a'] },
    })
    await expect(db.batch(['selec'])).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR' })
    await expect(db.execute('select * from missing')).rejects.toMatchObject({
      code: expect.stringMatching(/^SQL/),
      outcome: 'not_applied',
    })
    await db.close()
  })

  test.each(['database is locked', 'near "READONLY": syntax error'])(
    'RAISE() with the text %s is an error of its trigger, which runs once',
    async (text) => {
      const { db, server } = await start()
      await db.execute(`create trigger r before insert on t begin select raise(abort, '${text}'); end`)
      const before = server.requestCount()
      const error = await db.execute('insert into t values (1)').catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'SQLITE_CONSTRAINT', message: text })
      expect(server.requestCount() - before).toBe(1)
      await db.close()
    },
  )
})
