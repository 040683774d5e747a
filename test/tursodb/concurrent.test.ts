import { type Client, type ClientEvent, createClient, SqlError } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { expect, test } from 'vitest'
import { requireTursodb, startTursodb } from '../support/tursodb.ts'

requireTursodb()

async function openServer(observe?: (event: ClientEvent) => void) {
  const server = await startTursodb()
  const db = createClient({ url: server.url, ...(observe && { observe }) })
  await db.execute('pragma journal_mode = mvcc')
  await db.batch([
    'create table t (id integer primary key, n integer)',
    'insert into t values (1, 0), (2, 0)',
  ])
  return { server, db }
}

const readNumbers = async (db: Client): Promise<unknown[]> =>
  (await db.execute('select n from t order by id')).rows.map(({ n }) => n)

test('concurrent transactions of one client can write different rows', async () => {
  const { db, server } = await openServer()
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
  await db.close()
})

test('a transaction with a conflict is rolled back, and rejects with SQLITE_BUSY', async () => {
  const { db, server } = await openServer()
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
  await db.close()
})

test('reports a conflict that is detected by COMMIT', async () => {
  const { db, server } = await openServer()
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
  await db.close()
})

test('after a caught conflict, the transaction executes no more statements', async () => {
  const { db, server } = await openServer()
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
  await db.close()
})

test('the option `retry` runs the callback again', async () => {
  const retries: unknown[] = []
  const { db, server } = await openServer((event) => {
    if (event.type === 'retry') retries.push(event.error)
  })
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
  await db.close()
})

test('each of many concurrent transactions is applied once', async () => {
  const { db, server } = await openServer()
  const clients = [db, createClient({ url: server.url }), createClient({ url: server.url })]
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
  for (const client of clients) await client.close()
})

test('supports batches, streams and savepoints', async () => {
  const { db, server } = await openServer()
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
  await db.close()
})

test('a concurrent transaction requires the journal mode mvcc, and does not allow DDL', async () => {
  const { db } = await openServer()
  const create = (): Promise<unknown> =>
    db.transaction((tx) => tx.execute('create table u (a)'), { mode: 'concurrent' })
  await expect(create()).rejects.toThrow('DDL statements require an exclusive transaction')
  await db.close()
  await using withoutMvcc = createClient({ url: (await startTursodb()).url })
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
  const { server, db: other } = await openServer()
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
  await other.close()
})
