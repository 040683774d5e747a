import { setTimeout as pause } from 'node:timers/promises'
import { type CallOptions, createClient, readRows, type Transaction } from '@batonsql/core'
import { beforeEach, describe, expect, test } from 'vitest'
import { FaultProxy } from '../support/fault-proxy.ts'
import { createClientWithHeldResponses } from '../support/faulty-database.ts'
import { ENDLESS_READ, readColumn, settlesBefore } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

// Operations that a callback leaves running end with the callback, and do not affect later operations.
const { database, db } = await openTestClient()
beforeEach(() => db.batch(['drop table if exists t', 'create table t (a text)']))
const insert = (tx: Transaction, a: string) => tx.execute('insert into t values (?)', [a])
const selectValues = () => readColumn(db, 'select a from t order by rowid')
const failure = new Error('boom')

describe('a savepoint that fails', () => {
  test('undoes a nested savepoint that is not awaited, and the transaction continues', async () => {
    const errors: unknown[] = []
    await db.transaction(async (tx) => {
      await tx
        .savepoint((sp) =>
          Promise.all([
            sp
              .savepoint(async (i) => {
                await insert(i, 'debit')
                await insert(i, 'credit')
              })
              .catch((error: unknown) => errors.push(error)),
            Promise.reject(failure),
          ]),
        )
        .catch((error: unknown) => expect(error).toBe(failure))
      await insert(tx, 'audit')
    })
    expect(await selectValues()).toEqual(['audit'])
    await pause(10)
    expect(errors).toMatchObject([{ code: 'STREAM_CLOSED', outcome: 'not_applied' }])
  })

  test('rejects calls that are queued inside it, and later calls', async () => {
    const savepointHandle = Promise.withResolvers<Transaction>()
    const queued: Promise<unknown>[] = []
    await db.transaction(async (tx) => {
      const failedSavepoint = tx.savepoint(async (sp) => {
        savepointHandle.resolve(sp)
        await insert(sp, 'one')
        queued.push(insert(sp, 'two').catch((error: unknown) => error))
        await Promise.resolve()
        queued.push(sp.batch(["insert into t values ('three')"]).catch((error: unknown) => error))
        throw failure
      })
      await expect(failedSavepoint).rejects.toBe(failure)
      const ended = await savepointHandle.promise
      await expect(insert(ended, 'four')).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
      await expect(ended.savepoint(() => {})).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
      await insert(tx, 'five')
    })
    expect(await selectValues()).toEqual(['five'])
    // each ran and was undone, or was rejected
    for (const outcome of await Promise.all(queued))
      if (outcome instanceof Error)
        expect(outcome).toMatchObject({ code: 'STREAM_CLOSED', outcome: 'not_applied' })
      else expect([outcome].flat()).toMatchObject([{ rowsAffected: 1 }])
  })

  test('ends a loop over rows inside it', async () => {
    await db.transaction(async (tx) => {
      const failedSavepoint = tx.savepoint(async (sp) => {
        await insert(sp, 'gone')
        await readRows(sp, 'select 1 union select 2').next()
        throw failure
      })
      await expect(failedSavepoint).rejects.toBe(failure)
      await insert(tx, 'kept')
    })
    expect(await selectValues()).toEqual(['kept'])
  })
})

describe('a callback that returns', () => {
  test('while a savepoint is running rolls back everything, with an error', async () => {
    const errors: unknown[] = []
    const outcome = db.transaction(async (tx) => {
      await insert(tx, 'one')
      void tx
        .savepoint(async (sp) => {
          await insert(sp, 'debit')
          throw failure
        })
        .catch((error: unknown) => errors.push(error))
    })
    await expect(outcome).rejects.toThrow(/while a savepoint was running.*await/)
    await expect(outcome).rejects.toBeInstanceOf(TypeError)
    expect(await selectValues()).toEqual([])
    await pause(20)
    expect(errors).toHaveLength(1)
  })

  test('while a nested savepoint is running undoes the savepoint, and the transaction continues', async () => {
    await db.transaction(async (tx) => {
      await insert(tx, 'one')
      const failedSavepoint = tx.savepoint(async (sp) => {
        await insert(sp, 'two')
        sp.savepoint((i) => insert(i, 'three')).catch(() => {})
      })
      await expect(failedSavepoint).rejects.toThrow(/missing await/)
      await insert(tx, 'four')
    })
    expect(await selectValues()).toEqual(['one', 'four'])
  })

  test('while rows are being read in a savepoint undoes the savepoint', async () => {
    await db.transaction(async (tx) => {
      const failedSavepoint = tx.savepoint(async (sp) => {
        await insert(sp, 'two')
        await readRows(sp, 'select 1 union select 2').next()
      })
      await expect(failedSavepoint).rejects.toThrow(/while rows were being read/)
      await insert(tx, 'four')
    })
    expect(await selectValues()).toEqual(['four'])
  })

  test('without awaiting its statements still commits them', async () => {
    await db.transaction(async (tx) => {
      void insert(tx, 'one')
      void tx.batch(["insert into t values ('two')"])
    })
    expect(await selectValues()).toEqual(['one', 'two'])
  })
})

test('a savepoint that is still running when its transaction is rolled back rejects, because it was undone', async () => {
  const finish = Promise.withResolvers<void>()
  let savepoint: Promise<unknown> = Promise.resolve()
  const outcome = db.transaction(async (tx) => {
    savepoint = tx.savepoint(async () => {
      await finish.promise
      return 'value'
    })
    savepoint.catch(() => {})
    throw failure
  })
  await expect(outcome).rejects.toBe(failure)
  finish.resolve()
  await expect(savepoint).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
})

describe('arguments of a call', () => {
  test('are read when it is made, even if it waits for a savepoint', async () => {
    await db.transaction(async (tx) => {
      const finish = Promise.withResolvers<void>()
      const savepoint = tx.savepoint(() => finish.promise)
      const args = ['as passed']
      const statement = { sql: 'insert into t values (?)', args: ['as passed, too'] }
      const batch = ["insert into t values ('and this')"]
      const calls = [tx.execute('insert into t values (?)', args), tx.execute(statement), tx.batch(batch)]
      args[0] = 'changed'
      statement.args[0] = 'changed'
      statement.sql = 'commit'
      batch[0] = 'rollback'
      finish.resolve()
      await Promise.all([savepoint, ...calls])
    })
    expect(await selectValues()).toEqual(['as passed', 'as passed, too', 'and this'])
  })
})

describe('deadlines inside a transaction', () => {
  const timeout = { code: 'TIMEOUT', outcome: 'not_applied' }

  test('a savepoint waits for parallel savepoints no longer than its timeout, however many there are', async () => {
    await db.transaction(async (tx) => {
      const others = [0, 1, 2, 3].map(() => tx.savepoint(() => pause(40)))
      const timedOut = expect(tx.savepoint(() => {}, { timeoutMs: 70 })).rejects.toMatchObject(timeout)
      expect(await settlesBefore(timedOut, Promise.all(others))).toBe(true)
      await timedOut
      await Promise.all(others)
    })
  })

  test('rows that are queued after a statement in flight wait no longer than their timeout', async () => {
    await using proxy = await FaultProxy.start(database.url)
    const held = createClientWithHeldResponses(database, proxy, (body) => body.includes('running'))
    await using client = held.db
    await client.transaction(async (tx) => {
      await tx.execute('select 1')
      const running = tx.execute("select 'running'")
      await held.arrived
      const reason = new Error('changed my mind')
      const read = (options: CallOptions) => expect(readRows(tx, 'select 1', [], options).next()).rejects
      await Promise.all([
        read({ timeoutMs: 30 }).toMatchObject(timeout),
        read({ signal: AbortSignal.timeout(30) }).toMatchObject({ name: 'TimeoutError' }),
        read({ signal: AbortSignal.abort(reason) }).toBe(reason),
      ])
      held.releaseResponse()
      await running
    })
  })

  test('the timeout of a queued statement starts with the call', async () => {
    await using clientWithTimeout = createClient({ ...database.config, requestTimeoutMs: 400 })
    const statementLost = Promise.withResolvers<void>()
    const outcome = clientWithTimeout.transaction(
      async (tx) => {
        await tx.execute('select 1')
        const running = tx.execute(ENDLESS_READ)
        running.catch(() => statementLost.resolve())
        await pause(200)
        await tx.batch(['select 2'])
      },
      { mode: 'deferred' },
    )
    // if the timeout of the batch began when the batch was sent, this would take 400 ms
    const later = statementLost.promise.then(() => pause(200))
    expect(await settlesBefore(outcome, later)).toBe(true)
    await expect(outcome).rejects.toThrow()
  })
})
