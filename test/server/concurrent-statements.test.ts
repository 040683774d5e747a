// Concurrent statements on one database run in one thread, and a read sees everything that was acknowledged.
import { setTimeout as sleep } from 'node:timers/promises'
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { startWith } from './start-with.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const ENDLESS_SELECT =
  'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c'
/** Takes a few tens of milliseconds. */
const SLOW_SELECT =
  'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 50000) SELECT count(*) FROM c'
/** How long to observe a statement that has to wait. */
const OBSERVATION_MS = 300
/** Minimum number of writes, and of reads, that run concurrently. */
const MIN_OPERATIONS = 20

/** Sends an endless statement that is aborted when the test ends. */
function sendEndless(url: string, signal: AbortSignal, baton: string | null = null): Promise<unknown> {
  const requests = baton === null ? [execute(ENDLESS_SELECT), close] : [execute(ENDLESS_SELECT)]
  return pipeline(url, requests, { signal, baton }).catch(() => {})
}

test('a slow statement blocks only its own database, until its client disconnects', async () => {
  await using server = await startLocalServer()
  const other = await server.createDatabase('other')
  await query(server.url, 'CREATE TABLE t(a)')
  for (let round = 0; round < 3; round += 1) {
    const stopController = new AbortController()
    const endless = [1, 2].map(() => sendEndless(server.url, stopController.signal))
    expect(await query(other.url, 'SELECT 1')).toEqual([['1']])
    const blockedInsert = query(server.url, 'INSERT INTO t VALUES (1) RETURNING a')
    expect(await Promise.race([blockedInsert, sleep(OBSERVATION_MS, 'blocked')])).toBe('blocked')
    stopController.abort()
    await Promise.all(endless)
    expect(await blockedInsert).toEqual([['1']])
  }
  expect(await query(server.url, 'SELECT 1')).toEqual([['1']])
})

test('an aborted statement of a transaction does not affect committed rows', async () => {
  await using server = await startWith('CREATE TABLE t(a)', "INSERT INTO t VALUES ('before')")
  const { baton } = await pipeline(server.url, [execute('BEGIN'), execute("INSERT INTO t VALUES ('open')")])
  const stopController = new AbortController()
  const endless = sendEndless(server.url, stopController.signal, baton)
  await sleep(OBSERVATION_MS) // until it is running
  stopController.abort()
  await endless
  await query(server.url, "INSERT INTO t VALUES ('after')")
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['before'], ['after']])
})

test('readers concurrent with a writer see only whole transactions, including every acknowledged one', async () => {
  await using server = await startWith(
    'CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT)',
    'CREATE INDEX by_balance ON account(balance)',
    "INSERT INTO account VALUES (1, 1000, ''), (2, 1000, ''), (3, 0, '')",
  )
  let acknowledged = 0
  let reads = 0
  const isDone = (): boolean => acknowledged >= MIN_OPERATIONS && reads >= MIN_OPERATIONS

  // the engine is busy most of the time
  async function occupyEngine(): Promise<void> {
    let { baton } = await pipeline(server.url, [])
    while (!isDone()) ({ baton } = await pipeline(server.url, [execute(SLOW_SELECT)], { baton }))
    await pipeline(server.url, [close], { baton })
  }

  // each transaction writes a lot of data, so that the WAL is checkpointed and restarted many times
  async function write(): Promise<void> {
    while (!isDone()) {
      const amount = BigInt(1 + (acknowledged % 7))
      const response = await pipeline(server.url, [
        execute('BEGIN IMMEDIATE'),
        execute('UPDATE account SET balance = balance - ? WHERE id = 1', amount),
        execute('UPDATE account SET balance = balance + ? WHERE id = 2', amount),
        execute('UPDATE account SET balance = balance + 1, filler = hex(randomblob(400000)) WHERE id = 3'),
        execute('COMMIT'),
        close,
      ])
      expect(codes(response)).toEqual(['ok', 'ok', 'ok', 'ok', 'ok', 'ok'])
      acknowledged += 1
    }
  }

  async function read(): Promise<void> {
    while (!isDone()) {
      const before = acknowledged
      const [row] = await query(
        server.url,
        // other clients commit between the reads of the table and of its index
        `SELECT (SELECT sum(balance) FROM account WHERE id < 3), (SELECT balance FROM account WHERE id = 3), (${SLOW_SELECT}),
           (SELECT sum(balance) FROM account INDEXED BY by_balance WHERE balance > -1000000000)`,
      )
      const [total, count, , indexed] = row as [string, string, string, string]
      expect(total).toBe('2000')
      expect(Number(count)).toBeGreaterThanOrEqual(before)
      expect(Number(indexed)).toBe(2_000 + Number(count))
      reads += 1
    }
  }

  await Promise.all([occupyEngine(), write(), read(), read()])
  expect(await query(server.url, 'SELECT balance FROM account WHERE id = 3')).toEqual([
    [String(acknowledged)],
  ])
  expect(await query(server.url, 'PRAGMA integrity_check')).toEqual([['ok']])
})
