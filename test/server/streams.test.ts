import { setTimeout as sleep } from 'node:timers/promises'
import { startLocalServer } from '@batonsql/local-server'
import { describe, expect, test } from 'vitest'
import { expectNoStall } from '../support/no-stall.ts'
import { startWith } from './start-with.ts'
import { autocommit, close, codes, execute, pipeline, query } from './wire.ts'

const ENDLESS_QUERY = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c'

describe('batons', () => {
  test('are valid once, for their own database, and cannot be forged', async () => {
    await using server = await startLocalServer()
    const a = await server.createDatabase('a')
    const b = await server.createDatabase('b')
    const opened = await pipeline(a.url, [])
    const baton = opened.baton as string

    const foreign = await pipeline(b.url, [execute('SELECT 1')], { baton })
    expect([foreign.status, foreign.text]).toEqual([400, 'Received an invalid baton'])
    const forged = await pipeline(a.url, [], { baton: `${baton.slice(0, 20)}AAAA${baton.slice(24)}` })
    expect([forged.status, forged.text]).toEqual([400, 'Received an invalid baton'])

    const continued = await pipeline(a.url, [execute('SELECT 1')], { baton })
    expect(continued.status).toBe(200)
    const reused = await pipeline(a.url, [execute('SELECT 1')], { baton })
    expect([reused.status, reused.text]).toEqual([400, 'Received a baton that has already been used'])
    expect((await pipeline(a.url, [close], { baton: continued.baton })).baton).toBeNull()
  })

  test('of a removed database are invalid, and requests for it get 404', async () => {
    await using server = await startLocalServer()
    const { url } = await server.createDatabase('a')
    const { baton } = await pipeline(url, [execute('BEGIN')])
    await server.deleteDatabase('a')
    const removed = await pipeline(url, [execute('SELECT 1')], { baton })
    expect([removed.status, removed.text]).toEqual([404, '{"error":"Namespace `a` doesn\'t exist"}'])
    await server.createDatabase('a')
    const recreated = await pipeline(url, [execute('SELECT 1')], { baton })
    expect([recreated.status, recreated.text]).toEqual([400, 'Received an invalid baton'])
  })

  test('a server allows 128 streams; another request waits up to a second for a free one (waits 2 s)', async () => {
    await using server = await startLocalServer()
    const opened = await Promise.all(Array.from({ length: 128 }, () => pipeline(server.url, [])))
    expect(opened.every(({ status }) => status === 200)).toBe(true)
    const rejected = await pipeline(server.url, [close])
    expect([rejected.status, rejected.text]).toEqual([
      429,
      '{"error":"Timed out while opening database connection"}',
    ])
    const replies = await Promise.all(Array.from({ length: 140 }, () => pipeline(server.url, [close])))
    expect(replies.filter(({ text }) => text.includes('Too many concurrent requests'))).toHaveLength(12)
    const queued = pipeline(server.url, [execute('SELECT 1'), close])
    await pipeline(server.url, [close], { baton: opened[0]?.baton ?? null })
    expect((await queued).status).toBe(200)
  })
})

describe('the write lock', () => {
  test('a hundred simultaneous writers all succeed', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const writers = Array.from({ length: 100 }, (_, index) =>
      pipeline(server.url, [
        execute('BEGIN IMMEDIATE'),
        execute('INSERT INTO t VALUES (?)', BigInt(index)),
        execute('COMMIT'),
        close,
      ]),
    )
    for (const reply of await Promise.all(writers)) expect(codes(reply)).toEqual(['ok', 'ok', 'ok', 'ok'])
    expect(await query(server.url, 'SELECT count(DISTINCT a) FROM t')).toEqual([['100']])
  })

  test('is taken from a transaction after 5 s if another one waits (waits 5 s)', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const holder = await pipeline(server.url, [execute('BEGIN'), execute("INSERT INTO t VALUES ('holder')")])
    const waiter = pipeline(server.url, [execute("INSERT INTO t VALUES ('waiter')"), close])
    let isTaken = false
    void waiter.then(() => (isTaken = true))
    // an active transaction keeps the lock although another one is waiting
    await sleep(1_000)
    const activeHolder = await pipeline(server.url, [execute("INSERT INTO t VALUES ('holder')")], {
      baton: holder.baton,
    })
    expect([codes(activeHolder), isTaken]).toEqual([['ok'], false])
    expect(codes(await waiter)).toEqual(['ok', 'ok'])
    const victim = await pipeline(
      server.url,
      [autocommit, execute('COMMIT'), execute("INSERT INTO t VALUES ('after')"), close],
      { baton: activeHolder.baton },
    )
    expect(victim.results[0]?.response?.is_autocommit).toBe(true)
    expect(codes(victim)).toEqual(['ok', 'TRANSACTION_TIMEOUT', 'ok', 'ok'])
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([['waiter'], ['after']])
  })

  test('a reader never waits for a writer', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    await pipeline(server.url, [execute('BEGIN'), execute('INSERT INTO t VALUES (1)')])
    expect(await query(server.url, 'SELECT count(*) FROM t')).toEqual([['0']])
  })
})

describe('a client that disconnects', () => {
  test('ends its transaction, and statements that have not begun are not executed', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const transaction = await pipeline(server.url, [execute('BEGIN'), execute('INSERT INTO t VALUES (1)')])
    await disconnectAfter(100, (signal) =>
      pipeline(server.url, [execute(ENDLESS_QUERY), execute('COMMIT'), close], {
        baton: transaction.baton,
        signal,
      }),
    )
    await waitUntilIdle(server.url)
    expect(await query(server.url, 'SELECT count(*) FROM t')).toEqual([['0']])
    const nextWrite = await pipeline(server.url, [execute('INSERT INTO t VALUES (2)'), close])
    expect(codes(nextWrite)).toEqual(['ok', 'ok'])
  })

  test('while its statement is running ends its transaction at once, so that no other client is blocked', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const requests = [
      execute('BEGIN IMMEDIATE'),
      execute("INSERT INTO t VALUES ('gone')"),
      execute(ENDLESS_QUERY),
    ]
    await Promise.all(
      Array.from({ length: 4 }, () =>
        disconnectAfter(150, (signal) => pipeline(server.url, requests, { signal })),
      ),
    )
    await expectNoStall(() => query(server.url, "INSERT INTO t VALUES ('next')"))
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([['next']])
  })

  test('while its write waits for the write lock removes the write from the queue', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const holder = await pipeline(server.url, [execute('BEGIN'), execute("INSERT INTO t VALUES ('holder')")])
    await disconnectAfter(100, (signal) =>
      pipeline(server.url, [execute("INSERT INTO t VALUES ('gone')"), close], { signal }),
    )
    await sleep(50)
    await pipeline(server.url, [execute('COMMIT'), close], { baton: holder.baton })
    await waitUntilIdle(server.url)
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([['holder']])
  })
})

describe('after another client has changed the columns of a table', () => {
  const CHANGES = ['ALTER TABLE t DROP COLUMN a', 'ALTER TABLE t ADD COLUMN c DEFAULT 7']
  /** Executes a statement with a cursor. @returns the names of the columns, and the values of the rows */
  async function readCursor(url: string, sql: string, baton: string | null = null): Promise<unknown[]> {
    const body = JSON.stringify({ baton, batch: { steps: [{ stmt: { sql } }] } })
    const response = await fetch(`${url}/v3/cursor`, { method: 'POST', body })
    const lines = (await response.text()).trim().split('\n')
    const entries = lines.map(
      (line) => JSON.parse(line) as { cols?: { name: string }[]; row?: { value: string }[] },
    )
    return entries.flatMap(
      ({ cols, row }) => cols?.map(({ name }) => name) ?? row?.map(({ value }) => value) ?? [],
    )
  }

  test('a stream names the new ones', async () => {
    await using server = await startWith('CREATE TABLE t(a, b)', "INSERT INTO t VALUES (1, 'one')")
    const open = async () => (await pipeline(server.url, [execute('SELECT * FROM t')])).baton
    const streams = [await open(), await open(), await open()] as const
    for (const sql of CHANGES) await query(server.url, sql)
    const select = 'SELECT * FROM t'
    expect(await readCursor(server.url, select, streams[0])).toEqual(['b', 'c', 'one', '7'])
    const executed = await pipeline(server.url, [execute(select), close], { baton: streams[1] })
    const described = await pipeline(server.url, [{ type: 'describe', sql: select }, close], {
      baton: streams[2],
    })
    for (const { results } of [executed, described])
      expect(results[0]?.response?.result?.cols).toMatchObject([{ name: 'b' }, { name: 'c' }])
  })

  test('a cursor that has waited for the write lock names the new ones', async () => {
    await using server = await startWith('CREATE TABLE t(a, b)')
    const { baton } = await pipeline(
      server.url,
      ['BEGIN IMMEDIATE', ...CHANGES].map((sql) => execute(sql)),
    )
    const inserted = readCursor(server.url, "INSERT INTO t (b) VALUES ('one') RETURNING *")
    await sleep(100) // until it waits; if it arrives later, it cannot fail
    await pipeline(server.url, [execute('COMMIT'), close], { baton })
    expect(await inserted).toEqual(['b', 'c', 'one', '7'])
  })
})

async function disconnectAfter(
  delayMs: number,
  send: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  await expect(send(AbortSignal.timeout(delayMs))).rejects.toThrow()
}

/** Waits until the engine has processed all earlier requests. */
async function waitUntilIdle(url: string): Promise<void> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    if ((await pipeline(url, [execute('SELECT 1'), close])).status === 200) return
  }
  throw new Error('the database no longer responds')
}
