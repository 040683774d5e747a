import { type Client, createClient, type DatabaseError, executeMultiple, readRows } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { startLocalServer } from '@batonsql/local-server'
import { type FailureKind, useDatabase } from '@batonsql/local-server/testing'
import * as libsql from '@libsql/client'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { hasSqld } from '../../support/has-sqld.ts'

// Failures that tests of programs request. Those of the server that the whole run shares use the same code (run-server.test.ts).
const database = useDatabase({
  template: async (config) => {
    const setup = createClient(config)
    await setup.execute('create table payment (amount)')
    await setup.close()
  },
})
let db: Client
beforeEach(() => {
  db = createClient(database.config)
  onTestFinished(() => db.close())
})

const pay = (amount = 1): Promise<unknown> => db.execute('insert into payment values (?)', [amount])
const payInTransaction = (): Promise<unknown> =>
  db.transaction(async (tx) => {
    await tx.execute('select 1')
    await tx.execute('insert into payment values (1)')
  })
const countPayments = async (): Promise<unknown> =>
  (await db.execute('select count(*) as count from payment')).rows[0]?.['count']

async function getError(work: Promise<unknown>): Promise<Partial<DatabaseError>> {
  return await work.then(
    () => expect.fail('the call succeeded'),
    (error: DatabaseError) => error,
  )
}

describe('a failed write', () => {
  test.each<[FailureKind, object, number]>([
    ['lost-response', { outcome: 'unknown' }, 1],
    ['lost-request', { outcome: 'unknown' }, 0],
    [500, { outcome: 'unknown' }, 0],
    [403, { outcome: 'not_applied' }, 0],
  ])('%s', async (kind, error, payments) => {
    const failure = await database.fail(kind)
    expect(await getError(pay())).toMatchObject(error)
    expect(await failure.count()).toBe(1)
    // only once
    expect(await countPayments()).toBe(payments)
    await pay()
    expect(await failure.count()).toBe(1)
  })

  test('no-response: the client has to end it', async () => {
    const failure = await database.fail('no-response')
    const controller = new AbortController()
    const payment = getError(db.execute('insert into payment values (1)', [], { signal: controller.signal }))
    await expect.poll(() => failure.count()).toBe(1)
    const reason = new Error('the user has left')
    controller.abort(reason)
    expect(await payment).toBe(reason)
    expect(await countPayments()).toBe(0)
  })
})

describe('a failed transaction', () => {
  test('lost-response of its COMMIT: it is applied, but the client cannot know', async () => {
    await database.fail('lost-response', { sql: /^commit/i })
    expect(await getError(payInTransaction())).toMatchObject({ outcome: 'unknown' })
    expect(await countPayments()).toBe(1)
  })

  test('lost-transaction: it is rolled back, and its lock is free', async () => {
    const failure = await database.fail('lost-transaction', { sql: /insert/ })
    await pay() // not in a transaction
    expect(await failure.count()).toBe(0)
    expect(await getError(payInTransaction())).toMatchObject({ outcome: 'not_applied' })
    expect(await failure.count()).toBe(1)
    expect(await countPayments()).toBe(1)
    await pay()
  })

  test('busy: nothing is applied', async () => {
    const failure = await database.fail('busy', { always: true })
    expect(await getError(payInTransaction())).toMatchObject({ code: 'SQLITE_BUSY', outcome: 'not_applied' })
    expect(await getError(pay())).toMatchObject({ code: 'SQLITE_BUSY', outcome: 'not_applied' })
    expect(await getError(db.batch(['select 1', 'insert into payment values (1)']))).toMatchObject({
      code: 'SQLITE_BUSY',
    })
    await failure.remove()
    expect(await countPayments()).toBe(0)
  })

  test('busy: a ROLLBACK succeeds, and does not count', async () => {
    const stream = openStream(db)
    stream.begin()
    await stream.execute('select 1')
    const failure = await database.fail('busy', { always: true })
    await stream.rollback()
    await stream.close()
    expect(await failure.count()).toBe(0)
  })

  test('busy: a script, whose BEGIN is reported with its position', async () => {
    await database.fail('busy', { sql: /begin/i, always: true })
    for (const count of [1, 2]) {
      const script = `\n begin immediate;${' insert into payment values (1);'.repeat(count)} commit`
      await expect(executeMultiple(db, script)).rejects.toMatchObject({
        code: 'SQLITE_BUSY',
        outcome: 'not_applied',
        statementIndex: 0,
        message: expect.stringContaining('line 2, column 2: '),
      })
    }
  })

  test('busy: the rows of an iterator', async () => {
    await database.fail('busy')
    const read = async (): Promise<void> => {
      for await (const row of readRows(db, 'select 1')) expect(row).toBe(undefined)
    }
    expect(await getError(read())).toMatchObject({ code: 'SQLITE_BUSY' })
    expect(await countPayments()).toBe(0)
  })
})

describe('which requests fail', () => {
  const failAll = async (...amounts: number[]): Promise<boolean[]> => {
    const failures: boolean[] = []
    for (const amount of amounts)
      failures.push(
        await pay(amount).then(
          () => false,
          () => true,
        ),
      )
    return failures
  }

  test('the n-th one', async () => {
    await database.fail(400, { on: 2 })
    expect(await failAll(1, 2, 3)).toEqual([false, true, false])
  })

  test('the n-th and all later ones, until the failure is removed', async () => {
    const failure = await database.fail(400, { on: 2, always: true })
    expect(await failAll(1, 2, 3)).toEqual([false, true, true])
    await failure.remove()
    await failure.remove()
    expect(await failAll(4)).toEqual([false])
    expect(await failure.count()).toBe(2)
  })

  test('those whose SQL matches, whatever the values are', async () => {
    const failure = await database.fail(400, { sql: /payment$/g, always: true })
    await db.execute("insert into payment values ('delete from payment')")
    await db.execute('insert into payment values (?)', ['from payment'])
    for (let round = 0; round < 2; round++) await getError(db.execute('delete from payment'))
    expect(await failure.count()).toBe(2)
  })

  test('several failures count each request; the first one applies', async () => {
    const first = await database.fail(400, { on: 1 })
    const second = await database.fail('lost-response', { on: 2 })
    expect(await failAll(1, 2)).toEqual([true, true])
    expect([await first.count(), await second.count()]).toEqual([1, 1])
    expect(await countPayments()).toBe(1)
  })

  test.each([1, 2])('none of the next test: %i', async () => {
    await pay()
    await database.fail('lost-request', { always: true })
  })
})

describe('a transaction of @libsql/client, which sends each SQL only once', () => {
  const insert = 'insert into payment values (1)'
  const begin = async (): Promise<libsql.Transaction> => {
    const client = libsql.createClient(database.config)
    onTestFinished(() => client.close())
    const tx = await client.transaction('write')
    onTestFinished(() => tx.close())
    await tx.execute('select 1')
    return tx
  }

  test('a repeated statement is one of those that match', async () => {
    const failure = await database.fail('busy', { sql: /insert/, on: 2 })
    const tx = await begin()
    await tx.execute(insert)
    await expect(tx.execute(insert)).rejects.toMatchObject({ code: 'SQLITE_BUSY' })
    expect(await failure.count()).toBe(1)
    await tx.execute(insert)
    await tx.commit()
    expect(await countPayments()).toBe(2)
  })

  test('a statement whose SQL is not known is one with unknown SQL', async () => {
    const tx = await begin()
    await tx.execute(insert)
    const matching = await database.fail('busy', { sql: /insert/ })
    const failure = await database.fail('busy')
    await expect(tx.execute(insert)).rejects.toMatchObject({ code: 'SQLITE_BUSY' })
    expect([await matching.count(), await failure.count()]).toEqual([0, 1])
  })

  test('another transaction has other statements', async () => {
    const failure = await database.fail('busy', { sql: /insert/, always: true })
    for (let round = 0; round < 2; round++) {
      const tx = await begin()
      await tx.execute('select 1')
      await expect(tx.execute(insert)).rejects.toMatchObject({ code: 'SQLITE_BUSY' })
      tx.close()
    }
    expect(await failure.count()).toBe(2)
  })
})

test('a request without a response ends with the database', async () => {
  const server = await startLocalServer()
  onTestFinished(() => server.close())
  const removed = await server.createDatabase('removed')
  const client = createClient(removed)
  onTestFinished(() => client.close())
  const failure = server.fail('removed', 'no-response')
  const write = getError(client.execute('create table a (b)'))
  await expect.poll(() => failure.count()).toBe(1)
  await server.deleteDatabase('removed')
  expect(await write).toMatchObject({ code: 'NETWORK' })
})

test.skipIf(!hasSqld)('requests to libsql-server fail in the same way', async () => {
  const server = await startLocalServer({ backend: 'sqld' })
  onTestFinished(() => server.close())
  const sqldClient = createClient({ url: server.url })
  onTestFinished(() => sqldClient.close())
  await sqldClient.execute('create table payment (amount)')
  const insert = 'insert into payment values (1)'
  const busy = server.fail('default', 'busy', { sql: /insert/ })
  expect(await getError(sqldClient.batch([insert]))).toMatchObject({ code: 'SQLITE_BUSY' })
  server.fail('default', 'lost-transaction', { sql: /insert/ })
  const transaction = sqldClient.transaction(async (tx) => {
    await tx.execute('select 1')
    await tx.execute(insert)
  })
  expect(await getError(transaction)).toMatchObject({ outcome: 'not_applied' })
  server.fail('default', 'lost-response', { sql: /insert/ })
  expect(await getError(sqldClient.execute(insert))).toMatchObject({ outcome: 'unknown' })
  expect((await sqldClient.execute('select * from payment')).rows).toHaveLength(1)
  expect(busy.count()).toBe(1)
  expect(() => server.fail('none', 'busy')).toThrow('database "none" does not exist')
})

test.each<[unknown, object, RegExp]>([
  ['lost', {}, /the kind must be 'lost-request', 'lost-response', .* or an HTTP status from 400 to 599/],
  [200, {}, /or an HTTP status from 400 to 599, not 200/],
  ['busy', { sql: 'insert' }, /sql must be a regular expression, not a value of type string/],
  ['busy', { on: 0 }, /on must be an integer from 1 to 2\^53 - 1, not 0/],
  ['busy', { times: 2 }, /fail: unknown option times; the options are sql, on, always/],
])('%o with %o is rejected', async (kind, options, message) => {
  await expect(database.fail(kind as FailureKind, options)).rejects.toThrow(message)
})
