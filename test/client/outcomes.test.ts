import {
  type ClientEvent,
  createClient,
  executeMultiple,
  readRows,
  SqlError,
  type Transaction,
} from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { beforeEach, describe, expect, test } from 'vitest'
import { readColumn } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

const { database, db } = await openTestClient()
beforeEach(() => db.batch(['drop table if exists t', 'create table t (a unique)']))
const selectValues = () => readColumn(db, 'select a from t order by a')

describe('the outcome of a call with several statements concerns the whole call', () => {
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

  test('a batch in a transaction: unknown, because a COMMIT would apply what it has changed', async () => {
    let batchError: unknown
    await db.transaction(async (tx) => {
      batchError = await tx.batch([INSERT, INSERT_INTO_MISSING]).catch((error: unknown) => error)
    })
    expect(batchError).toMatchObject({ outcome: 'unknown' })
    expect(await selectValues()).toEqual([1])
  })
})

describe('an error in a transaction', () => {
  interface Seen {
    readonly outcome: unknown
    readonly message: string
    readonly stack: string | undefined
  }
  const look = (error: unknown): Seen => {
    const { outcome, message, stack } = error as Error & { outcome?: unknown }
    return { outcome, message, stack }
  }
  /** Records an error as a program would log it. */
  function createLog() {
    const seen: { readonly error: unknown; readonly before: Seen }[] = []
    return {
      record: (error: unknown): never => {
        seen.push({ error, before: look(error) })
        throw error
      },
      expectUnchanged: (): void => {
        for (const { error, before } of seen) expect(look(error)).toEqual(before)
        expect(seen.length).toBeGreaterThan(0)
      },
      get outcomes(): unknown[] {
        return seen.map(({ before }) => before.outcome)
      },
    }
  }

  const FAIL = 'insert or fail into t values (2), (1), (3)'
  const STATEMENTS: Record<string, readonly [outcome: string, (tx: Transaction) => Promise<unknown>]> = {
    'a statement that kept nothing': ['not_applied', (tx) => tx.execute('insert into t values (1)')],
    'a statement that kept rows': ['unknown', (tx) => tx.execute(FAIL)],
    'a batch after a change': [
      'unknown',
      (tx) => tx.batch(['insert into t values (4)', 'select * from nosuch']),
    ],
    'a batch without a change': ['not_applied', (tx) => tx.batch(['select 1', 'select * from nosuch'])],
    'rows of a statement that kept rows': [
      'unknown',
      async (tx) => {
        for await (const _ of readRows(tx, `${FAIL} returning a`));
      },
    ],
    'a statement that kept rows, in a savepoint': [
      'unknown',
      (tx) => tx.savepoint(async (inner) => await inner.execute(FAIL)),
    ],
    'statements in one request': [
      'unknown',
      async (tx) => {
        const [result] = await Promise.allSettled([tx.execute(FAIL), tx.execute('select 1')])
        if (result.status === 'rejected') throw result.reason
      },
    ],
  }

  test.each(Object.entries(STATEMENTS))('%s: its outcome never changes', async (name, [outcome, run]) => {
    await db.execute('insert into t values (1)')
    for (const ends of ['commit', 'throw', 'rollback'] as const) {
      const log = createLog()
      const events: ClientEvent[] = []
      await using observed = createClient({
        ...database.config,
        observe: (event) => {
          if (event.type === 'query:error') expect(event.error).toMatchObject({ outcome })
          events.push(event)
        },
      })
      const transaction = observed.transaction(async (tx) => {
        try {
          await run(tx).catch(log.record)
        } catch (error) {
          if (ends === 'throw') throw error
        }
        if (ends === 'rollback') await tx.rollback()
      })
      if (ends === 'throw') await expect(transaction).rejects.toMatchObject({ outcome: 'not_applied' })
      else await transaction
      const isUndone = name.includes('savepoint')
      expect(log.outcomes).toEqual([isUndone ? 'not_applied' : outcome])
      log.expectUnchanged()
      const errors = events.flatMap((event) => (event.type === 'query:error' ? [event.error] : []))
      for (const error of errors) expect(error).toMatchObject({ outcome })
      expect(errors).toHaveLength(1)
      const isKept = ends === 'commit' && outcome === 'unknown' && !isUndone
      expect((await selectValues()).length).toBe(isKept ? 2 : 1)
      await db.execute('delete from t where a > 1')
    }
  })

  test('the error of the transaction has the properties of the error of the statement', async () => {
    let statementError: unknown
    const transaction = db.transaction(async (tx) => {
      try {
        await tx.batch(['insert into t values (2)', 'insert into nosuch values (1)'])
      } catch (error) {
        statementError = error
        throw error
      }
    })
    const error: unknown = await transaction.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(SqlError)
    const { sql, results, statementIndex, code, message } = statementError as SqlError
    expect(error).toMatchObject({ sql, results, statementIndex, code, message, outcome: 'not_applied' })
    expect([statementError, sql]).toMatchObject([{ outcome: 'unknown' }, 'insert into nosuch values (1)'])
  })

  test('an error of a call outside of it keeps its outcome', async () => {
    await db.execute('insert into t values (1)')
    const transaction = db.transaction(async (tx) => {
      await tx.execute('select 1')
      await executeMultiple(db, 'insert into t values (5); select * from nosuch')
    })
    await expect(transaction).rejects.toMatchObject({ outcome: 'unknown' })
    const own = new Error('own error')
    await expect(db.transaction(() => Promise.reject(own))).rejects.toBe(own)
  })

  test('a stream that is lost rejects its calls with errors of their own', async () => {
    await using stream = openStream(db)
    const log = createLog()
    stream.begin()
    await stream.execute('insert into t values (1)')
    await expect(stream.execute('insert or rollback into t values (1)')).rejects.toThrow('UNIQUE')
    for (const sql of ['select 1', 'select 2', 'select 3'])
      await expect(stream.execute(sql).catch(log.record)).rejects.toThrow(/ended the transaction/)
    await expect(stream.chain(['select 4']).catch(log.record)).rejects.toThrow(/ended the transaction/)
    log.expectUnchanged()
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
