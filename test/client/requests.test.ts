import { createClient } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openTestServer } from '../support/test-server.ts'

// The number of HTTP requests of each call, counted at the server.
const server = await openTestServer()
const database = await server.createDatabase()
const db = createClient(database.config)
let requestsBefore = 0
const countRequests = (): number => database.requestCount() - requestsBefore

beforeAll(async () => {
  await db.execute('create table t (a integer primary key, b)')
  // makes the client detect that the server supports /v3
  await db.transaction((tx) => tx.execute('select 1'))
})
beforeEach(() => {
  requestsBefore = database.requestCount()
})
afterAll(() => db.close())

test('creating a client: no request', async () => {
  const idle = createClient(database.config)
  await idle.close()
  expect(countRequests()).toBe(0)
})

test('one statement: one request', async () => {
  await db.execute('select 1')
  expect(countRequests()).toBe(1)
})

test.each([1, 2, 1000])('a batch of %i: one request', async (length) => {
  await db.batch(Array.from({ length }, () => 'insert into t (b) values (1)'))
  expect(countRequests()).toBe(1)
})

test('an empty batch: no request', async () => {
  expect(await db.batch([])).toEqual([])
  expect(countRequests()).toBe(0)
})

test('a transaction of three awaited statements: four requests', async () => {
  await db.transaction(async (tx) => {
    for (let i = 0; i < 3; i++) await tx.execute('insert into t (b) values (?)', [i])
  })
  expect(countRequests()).toBe(4)
})

test('a transaction of five statements at once: two requests', async () => {
  await db.transaction((tx) =>
    Promise.all([1, 2, 3, 4, 5].map((i) => tx.execute('insert into t (b) values (?)', [i]))),
  )
  expect(countRequests()).toBe(2)
})

test('an empty transaction: no request', async () => {
  expect(await db.transaction(() => 'done')).toBe('done')
  await db.transaction((tx) => tx.savepoint(() => {}))
  await db.transaction((tx) => tx.rollback())
  await expect(
    db.transaction(() => {
      throw new Error('no')
    }),
  ).rejects.toThrow('no')
  expect(countRequests()).toBe(0)
})

test('a transaction of one statement that is rolled back: two requests', async () => {
  const transaction = db.transaction(async (tx) => {
    await tx.execute('insert into t (b) values (1)')
    throw new Error('no')
  })
  await expect(transaction).rejects.toThrow('no')
  expect(countRequests()).toBe(2)
})

test('a stream outside a transaction: one request for each statement, and one to close it', async () => {
  const stream = openStream(db)
  await stream.execute('select 1')
  await stream.execute('select 2')
  await stream.close()
  await stream.close()
  expect(countRequests()).toBe(3)
})
