import { type Client, createClient, executeMultiple, readRows } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { beforeEach, describe, expect, test } from 'vitest'
import { readColumn } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

// Servers that run every step of a batch, whatever its condition. Nothing that a batch or a transaction does there may be kept.

const { database, db: direct } = await openTestClient()
beforeEach(() =>
  direct.batch([
    'drop table if exists t',
    'create table t (a integer not null unique)',
    'insert into t values (0)',
  ]),
)
const readValues = () => readColumn(direct, 'select a from t order by a')

interface Ignoring {
  readonly path: RegExp
  readonly hidesV3?: boolean
}

/** Opens a client of a server that ignores the conditions of steps, and records its requests. */
function openClient({ path, hidesV3 = false }: Ignoring): { db: Client; requests: string[] } {
  const requests: string[] = []
  const fetch = (url: string, init: { body: string }): Promise<Response> => {
    if (hidesV3 && url.includes('/v3/')) return Promise.resolve(new Response('', { status: 404 }))
    // closing a stream runs nothing
    if (init.body.includes('"stmt"')) requests.push(init.body)
    const withoutConditions = (key: string, value: unknown): unknown =>
      key === 'condition' ? undefined : value
    const body = path.test(url) ? JSON.stringify(JSON.parse(init.body, withoutConditions)) : init.body
    return globalThis.fetch(url, { ...init, body })
  }
  return { db: createClient({ ...database.config, fetch: fetch as never }), requests }
}

async function readAll(handle: Parameters<typeof readRows>[0], sql: string): Promise<unknown[]> {
  const rows: unknown[] = []
  for await (const row of readRows(handle, sql)) rows.push(row)
  return rows
}

const insert = (a: number | null): string => `insert into t values (${a})`
const endsTransaction = 'insert or rollback into t values (0)'

const CALLS: Record<string, (db: Client) => Promise<unknown>> = {
  'a batch': (db) => db.batch([insert(1), insert(2)]),
  'a batch of one statement': (db) => db.batch([insert(1)]),
  'a batch of reads': (db) => db.batch(['select 1', 'select 2']),
  'a batch without foreign keys': (db) => db.batch([insert(1), insert(2)], { foreignKeys: 'off' }),
  'a batch whose first statement fails': (db) => db.batch([insert(null), insert(1)]),
  'a batch whose last statement fails': (db) => db.batch([insert(1), insert(null)]),
  'a batch whose first statement ends the transaction': (db) => db.batch([endsTransaction, insert(1)]),
  'a transaction': (db) => db.transaction((tx) => tx.execute(insert(1))),
  'a transaction that retries': (db) => db.transaction((tx) => tx.execute(insert(1)), { maxRetries: 2 }),
  'a transaction with savepoints': (db) =>
    db.transaction((tx) => tx.savepoint((inner) => inner.batch([insert(1), insert(2)]))),
  'a transaction with statements in one request': (db) =>
    db.transaction((tx) => Promise.all([1, 2, 3].map((a) => tx.execute(insert(a))))),
  'a transaction whose first statement ends it': (db) =>
    db.transaction((tx) => Promise.all([endsTransaction, insert(1)].map((sql) => tx.execute(sql)))),
  'rows of a transaction': (db) =>
    db.transaction(async (tx) => await readAll(tx, `${insert(1)} returning a`)),
  'a script': (db) => executeMultiple(db, `${insert(1)}; ${insert(2)}`),
  'a script whose first statement fails': (db) => executeMultiple(db, `${insert(null)}; ${insert(1)}`),
  'a transaction of a script': (db) =>
    executeMultiple(db, `begin; ${insert(1)}; ${insert(2)}; commit; ${insert(3)}`),
  'a chain': async (db) => {
    await using stream = openStream(db)
    await stream.chain([insert(null), insert(1)])
  },
}

const refused = {
  name: 'ProtocolError',
  outcome: 'not_applied',
  message: expect.stringContaining('ignores the conditions of steps'),
}

describe.each([false, true])('a server that ignores conditions (without /v3: %s)', (hidesV3) => {
  test.each(Object.entries(CALLS))(
    '%s: recognized by the first request; nothing is kept',
    async (_, call) => {
      const { db, requests } = openClient({ path: /pipeline|cursor/, hidesV3 })
      const error = await call(db).catch((reason: unknown) => reason)
      expect(error).toMatchObject(refused)
      expect(await readValues()).toEqual([0])
      expect(requests).toHaveLength(1)
      await db.close()
    },
  )

  test('single statements are run', async () => {
    const { db } = openClient({ path: /pipeline|cursor/, hidesV3 })
    await db.execute(insert(1))
    expect(await readAll(db, 'select a from t')).toEqual([{ a: 0 }, { a: 1 }])
    await db.close()
  })
})

test('a server that ignores only the conditions of cursors keeps nothing of their transaction', async () => {
  const { db } = openClient({ path: /cursor/ })
  for (const sql of ['select a from t', `${insert(3)} returning a`]) {
    let rows = 0
    const transaction = db.transaction(async (tx) => {
      await tx.execute(insert(1))
      for await (const _ of readRows(tx, sql)) rows += 1
    })
    await expect(transaction).rejects.toMatchObject(refused)
    expect(rows).toBe(0)
  }
  expect(await readValues()).toEqual([0])
  // pipelines are unaffected
  await db.batch([insert(4)])
  expect(await readValues()).toEqual([0, 4])
  await db.close()
})

test('a server that runs a statement of a stream that it must only parse keeps nothing', async () => {
  const { db } = openClient({ path: /pipeline|cursor/ })
  const stream = openStream(db)
  await stream.execute('select a from t')
  await expect(readAll(stream, `${insert(1)} returning a`)).rejects.toMatchObject(refused)
  expect(await readValues()).toEqual([0])
  await stream.close()
  await db.close()
})

test('a COMMIT whose condition is ignored keeps nothing', async () => {
  let ignores = false
  const fetch = (url: string, init: { body: string }): Promise<Response> => {
    const withoutConditions = (key: string, value: unknown): unknown =>
      ignores && key === 'condition' ? undefined : value
    const body = JSON.stringify(JSON.parse(init.body, withoutConditions))
    return globalThis.fetch(url, { ...init, body })
  }
  await using db = createClient({ ...database.config, fetch: fetch as never })
  const transaction = db.transaction(async (tx) => {
    await tx.execute(insert(1))
    ignores = true
  })
  await expect(transaction).rejects.toMatchObject(refused)
  expect(await readValues()).toEqual([0])
})

test('a server that evaluates conditions runs the same calls', async () => {
  await using db = createClient(database.config)
  await db.batch([insert(1), insert(2)])
  await expect(db.batch([insert(3), insert(null)])).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
  await executeMultiple(db, `${insert(4)}; begin; ${insert(5)}; commit`)
  await db.transaction((tx) => readAll(tx, `${insert(6)} returning a`))
  expect(await readValues()).toEqual([0, 1, 2, 4, 5, 6])
})
