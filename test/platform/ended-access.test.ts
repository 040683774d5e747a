import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type Client, createClient, readRows, type Transaction } from '@batonsql/core'
import { describe, expect, inject, test } from 'vitest'
import {
  ACCESS_CHANGES,
  type AccessChange,
  cursor,
  DatabaseInUse,
  LONG_READ,
  pipeline,
  send,
  type UnreadResponse,
  WITH_ROWS,
} from './database-in-use.ts'
import { sql } from './platform-harness.ts'

/** A write that returns 128 MB: the buffers of a connection whose client has begun to read can grow to more than 32 MB on Linux. */
const LONG_WRITE = `${WITH_ROWS} INSERT INTO t SELECT n FROM c RETURNING hex(zeroblob(4000))`
const ENDLESS_WRITE = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
  INSERT INTO t SELECT n FROM c WHERE n < 0`

describe.each(ACCESS_CHANGES)('$name', ({ change, endsReaders, restoreReads }: AccessChange) => {
  test.concurrent('aborts requests that only read, unless it blocks only writes', async () => {
    await using database = await DatabaseInUse.start('app')
    await database.createLongTable()
    const { client } = database
    const readers: Readonly<Record<string, UnreadResponse>> = {
      cursor: cursor(client, LONG_READ, 'SELECT 42'),
      dump: send(client, 'GET', '/dump'),
      export: send(client, 'GET', '/export/1'),
    }
    await Promise.all(Object.values(readers).map(({ started }) => started))
    await change(database)
    for (const [name, reader] of Object.entries(readers))
      expect([name, await reader.outcome()]).toMatchObject([name, { status: 200, isComplete: !endsReaders }])
  })

  test.concurrent('requests with pending writes do not write after the change is acknowledged', async () => {
    await using database = await DatabaseInUse.start('app')
    const { client } = database
    const writers = [
      cursor(client, LONG_READ, 'INSERT INTO t VALUES (1)'),
      cursor(client, 'BEGIN IMMEDIATE', LONG_READ, 'INSERT INTO t VALUES (2)', 'COMMIT'),
      cursor(client, 'BEGIN IMMEDIATE', 'INSERT INTO t VALUES (3)', LONG_READ, 'COMMIT'),
    ]
    await Promise.all(writers.map(({ started }) => started))
    // waits for the write lock
    const queued = pipeline(client, 'BEGIN IMMEDIATE', 'INSERT INTO t VALUES (4)', 'COMMIT')
    await change(database)
    await restoreReads?.(database)
    const rows = await database.rows()
    for (const writer of [...writers, queued]) await writer.outcome()
    expect(await database.rows()).toEqual(rows)
  })

  // the first two begin a transaction, which the last statements commit, although none of them writes
  test.concurrent.each([
    ['BEGIN', 'END'],
    ['BEGIN', 'COMMIT; BEGIN'],
    ['SAVEPOINT s', 'RELEASE s'],
    ['SAVEPOINT s', '/* */ release savepoint "s"'],
  ])('what %s began in an earlier request is not committed by %s after the change', async (begin, end) => {
    await using database = await DatabaseInUse.start('app')
    const { host, token, client } = database
    const { baton } = await sql(host, token, [begin, 'INSERT INTO t VALUES (1)'], { keepOpen: true })
    const steps = [LONG_READ, ...end.split(';')].map((text) => ({ stmt: { sql: text } }))
    const request = send(client, 'POST', '/v3/cursor', { baton, batch: { steps } })
    await request.started
    await change(database)
    await restoreReads?.(database)
    const rows = await database.rows()
    await request.outcome()
    expect(await database.rows()).toEqual(rows)
  })

  test.concurrent('an endless write is aborted, and the next write can acquire the write lock', async ({
    expect,
  }) => {
    await using database = await DatabaseInUse.start('app')
    const { harness } = database
    const before = harness.server.requestCount()
    const endless = pipeline(
      database.client,
      'INSERT INTO t VALUES (1)',
      ENDLESS_WRITE,
      'INSERT INTO t VALUES (2)',
    )
    await expect.poll(() => harness.server.requestCount()).toBe(before + 1)
    await change(database)
    await restoreReads?.(database)
    const rows = await database.rows()
    const { status, text } = await endless.outcome()
    // or the change took effect before the endless statement, so that this and the next one were rejected
    if (status === 200) {
      const { results } = JSON.parse(text) as { results: readonly { type: string }[] }
      expect(results.slice(1, 3).map(({ type }) => type)).toEqual(['error', 'error'])
    } else expect([401, 403, 502]).toContain(status)
    await database.configure({ block_writes: false })
    const write = await sql(database.host, await harness.tokenFor('app'), 'INSERT INTO t VALUES (3)')
    expect(write.error).toBeNull()
    expect(await database.rows()).toEqual([...rows, '3'])
  })

  test.concurrent('an open transaction is rolled back', async () => {
    await using database = await DatabaseInUse.start('app')
    const { harness } = database
    const { host, token } = database
    const transaction = await sql(host, token, ['BEGIN IMMEDIATE', 'INSERT INTO t VALUES (1)'], {
      keepOpen: true,
    })
    await change(database)
    await restoreReads?.(database)
    const commit = await sql(host, token, 'COMMIT', { baton: transaction.baton })
    expect([400, 401]).toContain(commit.status)
    const newToken = await harness.tokenFor('app')
    expect((await sql(host, newToken, 'COMMIT', { baton: transaction.baton })).status).toBe(400)
    expect(await database.rows()).toEqual([])
  })
})

test.concurrent('a deletion aborts requests that only read', async () => {
  await using database = await DatabaseInUse.start('app')
  const { harness } = database
  await database.createLongTable()
  const { client } = database
  const readers = [
    cursor(client, LONG_READ, 'SELECT 42'),
    send(client, 'GET', '/dump'),
    send(client, 'GET', '/export/1'),
  ]
  await Promise.all(readers.map(({ started }) => started))
  await harness.requestOk('DELETE', 'databases/app')
  for (const reader of readers) expect(await reader.outcome()).toMatchObject({ isComplete: false })
})

// the embedded server attaches a copy
describe.runIf(inject('target') === 'sqld')('a request that reads an attached database is aborted', () => {
  test.each<{ name: string; change: (database: DatabaseInUse) => Promise<unknown> }>([
    { name: 'block_reads', change: (database) => database.configure({ block_reads: true }) },
    { name: 'a deletion', change: ({ harness, name }) => harness.requestOk('DELETE', `databases/${name}`) },
  ])('$name', async ({ change }) => {
    await using other = await DatabaseInUse.start('other')
    const { harness } = other
    await other.createLongTable()
    await other.configure({ allow_attach: true })
    const { host } = await harness.createDatabase('app')
    const permissions = { read_attach: { databases: ['other'] } }
    const client = { host, token: await harness.tokenFor('app', '', { permissions }) }
    const reader = cursor(client, 'ATTACH other AS o', 'SELECT * FROM o.long')
    const neighbor = cursor(client, LONG_READ)
    await Promise.all([reader.started, neighbor.started])
    await change(other)
    expect(await reader.outcome()).toMatchObject({ status: 200, isComplete: false })
    expect(await neighbor.outcome()).toMatchObject({ status: 200, isComplete: true })
  })
})

test.concurrent.each([
  ['pipeline', pipeline],
  ['cursor', cursor],
] as const)('a cursor that is not read does not keep a writer waiting: %s', async (_, write) => {
  await using database = await DatabaseInUse.start('app')
  const { client } = database
  const unread = cursor(client, 'BEGIN IMMEDIATE', 'INSERT INTO t VALUES (1)', LONG_READ, 'COMMIT')
  await unread.started
  const writer = write(client, 'INSERT INTO t VALUES (2)')
  expect(await writer.outcome()).toMatchObject({ status: 200, isComplete: true })
  expect(await database.rows()).toContain('2')
  unread.abort()
})

test.concurrent.each<{
  what: string
  outcome: string
  run: (db: Client, read: (executor: Client | Transaction) => Promise<void>) => Promise<void>
}>([
  { what: 'a write', outcome: 'unknown', run: (db, read) => read(db) },
  { what: 'a write in a transaction', outcome: 'not_applied', run: (db, read) => db.transaction(read) },
])('the outcome of $what whose rows are not read is $outcome', async ({ outcome, run }) => {
  await using database = await DatabaseInUse.start('app')
  const { host, token } = database
  const db = createClient({ url: `http://${host}`, authToken: token })
  const read = async (executor: Client | Transaction): Promise<void> => {
    for await (const _ of readRows(executor, LONG_WRITE)) await writeOnce()
  }
  let write: Promise<unknown> | null = null
  const writeOnce = (): Promise<unknown> => (write ??= sql(host, token, "INSERT INTO t VALUES ('other')"))
  await expect(run(db, read)).rejects.toMatchObject({ outcome })
  await db.close()
  const rows = await database.rows()
  expect(rows).toContain('other')
  if (outcome === 'not_applied') expect(rows).toEqual(['other'])
})

test.concurrent('an aborted export counts as far as it was read', async ({ expect }) => {
  await using database = await DatabaseInUse.start('app')
  const { harness } = database
  await database.createLongTable()
  const aborted = send(database.client, 'GET', '/export/1')
  const [response] = (await aborted.started) as [IncomingMessage]
  // a part has arrived
  await once(response, 'readable')
  aborted.abort()
  const readUsage = async () => (await harness.requestOk('GET', 'databases/app/usage')).database.total
  await expect.poll(async () => (await readUsage()).bytes_synced).toBeGreaterThan(0)
  // the file has 16 MB
  expect((await readUsage()).bytes_synced).toBeLessThan(16_000_000)
})
