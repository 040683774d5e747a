import { createClient, executeMultiple, openStream } from '@batonsql/core'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { openTestServer } from '../support/test-server.ts'

const server = await openTestServer()
const database = await server.createDatabase()
const db = createClient(database.config)
afterAll(() => db.close())
beforeEach(() => db.batch(['drop table if exists t', 'create table t (a unique)']))
const selectValues = async (): Promise<unknown[]> =>
  (await db.execute('select a from t order by a')).rows.map(({ a }) => a)

describe('the outcome of a call with several statements is that of the whole call', () => {
  const [INSERT, INSERT_INTO_MISSING] = ['insert into t values (1)', 'insert into nosuch values (1)']

  test.each([
    [`${INSERT}; ${INSERT_INTO_MISSING}`, 'unknown', 1, [1]],
    [`begin; ${INSERT}; commit; ${INSERT_INTO_MISSING}`, 'unknown', 3, [1]],
    [`${INSERT}; begin; insert into t values (2); ${INSERT_INTO_MISSING}; commit`, 'unknown', 3, [1]],
    [`${INSERT}; begin; ${INSERT}; commit`, 'unknown', 2, [1]],
    [`begin; ${INSERT}; rollback; ${INSERT_INTO_MISSING}`, 'not_applied', 3, []],
    [`begin; ${INSERT}; ${INSERT_INTO_MISSING}; commit`, 'not_applied', 2, []],
    [`select 1; ${INSERT_INTO_MISSING}`, 'not_applied', 1, []],
    [`${INSERT_INTO_MISSING}; ${INSERT}`, 'not_applied', 0, []],
    [`begin; ${INSERT}; commit; selec`, 'unknown', 3, [1]],
    // like the beginning of a dump
    [`PRAGMA foreign_keys=OFF; begin; ${INSERT}; ${INSERT_INTO_MISSING}; commit`, 'not_applied', 3, []],
  ])('script %j: %s', async (script, outcome, statementIndex, remaining) => {
    await expect(executeMultiple(db, script)).rejects.toMatchObject({ outcome, statementIndex })
    expect(await selectValues()).toEqual(remaining)
  })

  test('a script whose server stops responding after its first request: unknown', async () => {
    const pad = 'x'.repeat(10_000)
    const inserts = Array.from({ length: 300 }, (_, index) => `insert into t values ('${index} ${pad}')`)
    let requests = 0
    await using faultyClient = createClient({
      ...database.config,
      fetch: (url, init) => {
        requests += 1
        if (requests > 1) return Promise.reject(new TypeError('connect ECONNREFUSED'))
        return fetch(url, init)
      },
    })
    await expect(executeMultiple(faultyClient, inserts.join(';\n'))).rejects.toMatchObject({
      name: 'TransportError',
      outcome: 'unknown',
    })
    expect((await selectValues()).length).toBeGreaterThan(0)
  })

  test('a chain of statements: unknown if an earlier one changed something', async () => {
    await using stream = openStream(db)
    await expect(stream.chain([INSERT, INSERT_INTO_MISSING])).rejects.toMatchObject({
      outcome: 'unknown',
      statementIndex: 1,
      results: [{ rowsAffected: 1 }],
    })
    await expect(stream.chain(['select 1', INSERT_INTO_MISSING])).rejects.toMatchObject({
      outcome: 'not_applied',
    })
    expect(await selectValues()).toEqual([1])
  })

  test('a batch in a transaction: unknown, until the transaction is rolled back', async () => {
    let batchError: unknown
    await db.transaction(async (tx) => {
      batchError = await tx.batch([INSERT, INSERT_INTO_MISSING]).catch((error: unknown) => error)
    })
    expect(batchError).toMatchObject({ outcome: 'unknown' })
    expect(await selectValues()).toEqual([1])
    const rolledBack = db.transaction((tx) => tx.batch(['insert into t values (2)', INSERT_INTO_MISSING]))
    await expect(rolledBack).rejects.toMatchObject({ outcome: 'not_applied' })
    expect(await selectValues()).toEqual([1])
  })
})

describe('text after COMMIT, ROLLBACK and BEGIN', () => {
  test.each([
    'COMMIT; INSERT INTO t VALUES (2)',
    'commit garbage',
    'END/**/x',
    'ROLLBACK garbage',
    'rollback; select 1',
  ])('is rejected, and the transaction continues: %j', async (sql) => {
    await using stream = openStream(db)
    stream.begin()
    await stream.execute('insert into t values (1)')
    await expect(stream.execute(sql)).rejects.toThrow(SyntaxError)
    expect(stream.inTransaction).toBe(true)
    expect(await selectValues()).toEqual([])
    await stream.execute('commit -- a comment\n transaction;;')
    expect(await selectValues()).toEqual([1])
  })

  test('is rejected after BEGIN, and no transaction begins', async () => {
    await using stream = openStream(db)
    await expect(stream.execute('begin; insert into t values (1)')).rejects.toThrow(
      new SyntaxError('unexpected text after BEGIN'),
    )
    expect(stream.inTransaction).toBe(false)
    expect(() => stream.begin('begin; insert into t values (1)')).toThrow(SyntaxError)
    expect(stream.inTransaction).toBe(false)
    const script = executeMultiple(db, 'insert into t values (1); begin immediate x; commit')
    await expect(script).rejects.toThrow(new SyntaxError('line 1, column 27: unexpected text after BEGIN'))
    expect(await selectValues()).toEqual([])
  })

  test.each([
    ['begin transaction n', 'COMMIT TRANSACTION n', [1]],
    ['begin immediate transaction "n"', 'rollback transaction n', []],
  ])('the name of a transaction is ignored: %j, %j', async (begin, end, remaining) => {
    await using stream = openStream(db)
    await stream.execute(begin)
    await stream.execute('insert into t values (1)')
    await stream.execute(end)
    expect(stream.inTransaction).toBe(false)
    expect(await selectValues()).toEqual(remaining)
  })
})
