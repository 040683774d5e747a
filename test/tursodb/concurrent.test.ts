import { type Client, type ClientEvent, createClient, SqlError } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { expect, test } from 'vitest'
import { openTursodb, requireTursodb } from '../support/tursodb.ts'

requireTursodb()

const SETUP = [
  'pragma journal_mode = mvcc',
  'create table t (id integer primary key, n integer)',
  'insert into t values (1, 0), (2, 0)',
]

const readNumbers = async (db: Client): Promise<unknown[]> =>
  (await db.execute('select n from t order by id')).rows.map(({ n }) => n)

test('concurrent transactions of one client can write different rows', async () => {
  const { db, server } = await openTursodb(SETUP)
  const changes = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  const add = (index: 0 | 1): Promise<void> =>
    db.transaction(
      async (tx) => {
        await tx.execute('update t set n = n + 1 where id = ?', [index + 1])
        changes[index].resolve()
        // neither commits until the other has made its change
        await changes[(1 - index) as 0 | 1].promise
        await tx.execute('update t set n = n + 1 where id = ?', [index + 1])
      },
      { mode: 'concurrent' },
    )
  await Promise.all([add(0), add(1)])
  expect(await readNumbers(db)).toEqual([2, 2])
  expect(server.streamCount).toBe(0)
})

test('a transaction with a conflict is rolled back, and rejects with SQLITE_BUSY', async () => {
  const { db, server } = await openTursodb(SETUP)
  await using otherClient = createClient({ url: server.url })
  const conflicting = db.transaction(
    async (tx) => {
      await tx.execute('update t set n = 10 where id = 2')
      await otherClient.execute('update t set n = 7 where id = 1')
      await tx.execute('update t set n = 10 where id = 1')
    },
    { mode: 'concurrent' },
  )
  const error: unknown = await conflicting.catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(SqlError)
  expect(error).toMatchObject({
    code: 'SQLITE_BUSY',
    extendedCode: 'SQLITE_BUSY_SNAPSHOT',
    outcome: 'not_applied',
    message: 'Write-write conflict',
  })
  expect(await readNumbers(db)).toEqual([7, 0])
  expect(server.streamCount).toBe(0)
})

test('reports a conflict that is detected by COMMIT', async () => {
  const { db, server } = await openTursodb(SETUP)
  const insert = (n: number, wait: () => Promise<void>): Promise<void> =>
    db.transaction(
      async (tx) => {
        await tx.execute('insert into t values (3, ?)', [n])
        await wait()
      },
      { mode: 'concurrent' },
    )
  const conflicting = insert(8, () => insert(9, async () => {}))
  await expect(conflicting).rejects.toMatchObject({ code: 'SQLITE_BUSY', outcome: 'not_applied' })
  expect(await readNumbers(db)).toEqual([0, 0, 9])
  expect(server.streamCount).toBe(0)
})

test('after a caught conflict, the transaction executes no more statements', async () => {
  const { db, server } = await openTursodb(SETUP)
  await using otherClient = createClient({ url: server.url })
  const lost = db.transaction(
    async (tx) => {
      await tx.execute('select * from t')
      await otherClient.execute('update t set n = 7 where id = 1')
      await tx.execute('update t set n = 10 where id = 1').catch(() => {})
      await tx.execute('update t set n = 10 where id = 2')
    },
    { mode: 'concurrent' },
  )
  await expect(lost).rejects.toMatchObject({ code: 'TRANSACTION_LOST', outcome: 'not_applied' })
  expect(await readNumbers(db)).toEqual([7, 0])
})

test('the option `retry` runs the callback again', async () => {
  const retries: unknown[] = []
  const observe = (event: ClientEvent): void => {
    if (event.type === 'retry') retries.push(event.error)
  }
  const { db, server } = await openTursodb(SETUP, { observe })
  await using otherClient = createClient({ url: server.url })
  let runs = 0
  await db.transaction(
    async (tx) => {
      runs += 1
      const { rows } = await tx.execute<{ n: number }>('select n from t where id = 1')
      if (runs === 1) await otherClient.execute('update t set n = n + 5 where id = 1')
      await tx.execute('update t set n = ? where id = 1', [(rows[0]?.n ?? 0) + 1])
    },
    { mode: 'concurrent', maxRetries: 3 },
  )
  expect(runs).toBe(2)
  expect(retries).toMatchObject([{ code: 'SQLITE_BUSY' }])
  expect(await readNumbers(db)).toEqual([6, 0])
})

test('each of many concurrent transactions is applied once', async () => {
  const { db, server } = await openTursodb(SETUP)
  await using second = createClient({ url: server.url })
  await using third = createClient({ url: server.url })
  const clients = [db, second, third]
  const add = (client: Client): Promise<void> =>
    client.transaction(
      async (tx) => {
        const { rows } = await tx.execute<{ n: number }>('select n from t where id = 1')
        await tx.execute('update t set n = ? where id = 1', [(rows[0]?.n ?? 0) + 1])
      },
      { mode: 'concurrent', maxRetries: 100 },
    )
  await Promise.all(Array.from({ length: 12 }, (_, index) => add(clients[index % 3] as Client)))
  expect(await readNumbers(db)).toEqual([12, 0])
  expect(server.streamCount).toBe(0)
})

test('supports batches, streams and savepoints', async () => {
  const { db, server } = await openTursodb(SETUP)
  await db.batch(['update t set n = 1 where id = 1', 'update t set n = 2 where id = 2'], {
    mode: 'concurrent',
  })
  await using stream = openStream(db)
  stream.begin('begin concurrent')
  await stream.execute('update t set n = n + 10')
  stream.savepoint('s')
  await stream.execute('update t set n = 0')
  stream.rollbackTo('s')
  await stream.commit()
  expect(await readNumbers(db)).toEqual([11, 12])
  expect(server.bodies.filter((body) => /begin concurrent/i.test(body))).toHaveLength(2)
})

test('a concurrent transaction requires the journal mode mvcc, and does not allow DDL', async () => {
  const { db } = await openTursodb(SETUP)
  const create = (): Promise<unknown> =>
    db.transaction((tx) => tx.execute('create table u (a)'), { mode: 'concurrent' })
  await expect(create()).rejects.toThrow('DDL statements require an exclusive transaction')
  const { db: withoutMvcc } = await openTursodb()
  const transaction = withoutMvcc.transaction((tx) => tx.execute('select 1'), {
    mode: 'concurrent',
    maxRetries: 3,
  })
  await expect(transaction).rejects.toMatchObject({
    name: 'SqlError',
    message: expect.stringContaining('run PRAGMA journal_mode = mvcc'),
  })
})

test('an aborted transaction leaves neither a stream nor changed rows behind', async () => {
  const { server, db: other } = await openTursodb(SETUP)
  const [arrived, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const db = createClient({
    url: server.url,
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      if (init.body?.includes('BEGIN CONCURRENT')) {
        arrived.resolve()
        await released.promise
      }
      return response
    },
  })
  const controller = new AbortController()
  const update = db.transaction(
    (tx) => tx.execute('update t set n = 9 where id = 1', [], { signal: controller.signal }),
    { mode: 'concurrent' },
  )
  await arrived.promise
  controller.abort(new Error('aborted'))
  await expect(update).rejects.toThrow('aborted')
  released.resolve()
  await db.close()
  await other.execute('update t set n = 1 where id = 1')
  expect(await readNumbers(other)).toEqual([1, 0])
  expect(server.streamCount).toBe(0)
})
