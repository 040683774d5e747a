/*
 * Statements of one database beside each other: a slow one keeps nobody waiting who needs nothing of it, and whoever
 * reads sees everything that was acknowledged, wherever it is read.
 */
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { close, codes, execute, pipeline, query } from './wire.ts'

const ENDLESS = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c'
/** Takes some hundredths of a second. */
const SLOW =
  'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 50000) SELECT count(*) FROM c'
/** Much more than a look at another worker takes, and less than the slow statements here. */
const SOON_MS = 2_500

/** Sends a statement that never ends, until the test is over. */
function sendEndless(url: string, signal: AbortSignal, baton: string | null = null): Promise<unknown> {
  const requests = baton === null ? [execute(ENDLESS), close] : [execute(ENDLESS)]
  return pipeline(url, requests, { signal, baton }).catch(() => {})
}

async function elapsed(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await run()
  return performance.now() - started
}

test('reads and writes go on beside reads that never end', async () => {
  await using server = await startLocalServer()
  await query(server.url, 'CREATE TABLE t(a)')
  const over = new AbortController()
  const endless = [1, 2].map(() => sendEndless(server.url, over.signal))
  expect(await elapsed(() => query(server.url, 'SELECT 1'))).toBeLessThan(SOON_MS)
  expect(await elapsed(() => query(server.url, 'INSERT INTO t VALUES (1)'))).toBeLessThan(SOON_MS)
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['1']])
  over.abort()
  await Promise.all(endless)
})

test('reads go on beside a transaction whose statement never ends, and see what was committed before', async () => {
  await using server = await startLocalServer()
  await query(server.url, 'CREATE TABLE t(a)')
  await query(server.url, "INSERT INTO t VALUES ('before')")
  const { baton } = await pipeline(server.url, [execute('BEGIN'), execute("INSERT INTO t VALUES ('open')")])
  const over = new AbortController()
  const endless = sendEndless(server.url, over.signal, baton)
  expect(await elapsed(() => query(server.url, 'SELECT a FROM t'))).toBeLessThan(SOON_MS)
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['before']])
  over.abort()
  await endless
  await query(server.url, "INSERT INTO t VALUES ('after')")
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['before'], ['after']])
})

test('what a reader refuses is refused, and errors are the same', async () => {
  await using server = await startLocalServer()
  await query(server.url, 'CREATE TABLE t(a)')
  const { baton } = await pipeline(server.url, [execute('SELECT 1')])
  const over = new AbortController()
  const endless = sendEndless(server.url, over.signal, baton)
  const answer = await pipeline(server.url, [
    execute('SELECT nosuch FROM t'),
    execute('SELECT a FROM nosuch'),
    execute("SELECT json('{')"),
    execute('SELECT abs(-9223372036854775808)'),
    execute('SELECT 1'),
    close,
  ])
  expect(codes(answer)).toEqual([
    'SQL_INPUT_ERROR',
    'SQLITE_UNKNOWN',
    'SQLITE_UNKNOWN',
    'SQLITE_UNKNOWN',
    'ok',
    'ok',
  ])
  over.abort()
  await endless
})

test('settings of a connection are the same where a reader answers', async () => {
  await using server = await startLocalServer()
  const { url } = await server.createDatabase('d', { sizeLimitBytes: 8_192_000 })
  await query(url, 'CREATE TABLE t(a)')
  const settings = ['synchronous', 'max_page_count', 'journal_mode', 'cache_size', 'page_count', 'query_only']
  const ask = async (): Promise<unknown> =>
    await Promise.all(settings.map((name) => query(url, `SELECT * FROM pragma_${name}`)))
  const ofWriter = await ask()
  expect(ofWriter).toEqual([[['1']], [['2000']], [['wal']], [['-2000']], [['2']], [['0']]])
  const { baton } = await pipeline(url, [execute('SELECT 1')])
  const over = new AbortController()
  const endless = sendEndless(url, over.signal, baton)
  expect(await ask()).toEqual(ofWriter)
  over.abort()
  await endless
})

test('whoever leaves a read that was moved ends it', async () => {
  await using server = await startLocalServer()
  for (let round = 0; round < 4; round += 1) {
    const over = new AbortController()
    const endless = [1, 2].map(() => sendEndless(server.url, over.signal))
    expect(await elapsed(() => query(server.url, 'SELECT 1'))).toBeLessThan(SOON_MS)
    over.abort()
    await Promise.all(endless)
  }
  expect(await elapsed(() => query(server.url, 'SELECT 1'))).toBeLessThan(SOON_MS)
})

test('readers beside a writer see whole transactions, and all that were acknowledged (takes 6 s)', {
  timeout: 40_000,
}, async () => {
  await using server = await startLocalServer()
  await query(server.url, 'CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT)')
  await query(server.url, 'CREATE INDEX by_balance ON account(balance)')
  await query(server.url, "INSERT INTO account VALUES (1, 1000, ''), (2, 1000, ''), (3, 0, '')")
  const until = performance.now() + 6_000
  let acknowledged = 0
  let reads = 0

  // keeps the engine that writes busy most of the time, so that reads go elsewhere
  async function keepBusy(): Promise<void> {
    let { baton } = await pipeline(server.url, [])
    while (performance.now() < until) ({ baton } = await pipeline(server.url, [execute(SLOW)], { baton }))
    await pipeline(server.url, [close], { baton })
  }

  // much is written in each transaction, so that the log is moved to the file and begun anew many times
  async function write(): Promise<void> {
    while (performance.now() < until) {
      const amount = BigInt(1 + (acknowledged % 7))
      const answer = await pipeline(server.url, [
        execute('BEGIN IMMEDIATE'),
        execute('UPDATE account SET balance = balance - ? WHERE id = 1', amount),
        execute('UPDATE account SET balance = balance + ? WHERE id = 2', amount),
        execute('UPDATE account SET balance = balance + 1, filler = hex(randomblob(400000)) WHERE id = 3'),
        execute('COMMIT'),
        close,
      ])
      expect(codes(answer)).toEqual(['ok', 'ok', 'ok', 'ok', 'ok', 'ok'])
      acknowledged += 1
    }
  }

  async function read(): Promise<void> {
    while (performance.now() < until) {
      const before = acknowledged
      const [row] = await query(
        server.url,
        // between the table and its index passes some time, in which others commit
        `SELECT (SELECT sum(balance) FROM account WHERE id < 3), (SELECT balance FROM account WHERE id = 3), (${SLOW}),
           (SELECT sum(balance) FROM account INDEXED BY by_balance WHERE balance > -1000000000)`,
      )
      const [total, count, , indexed] = row as [string, string, string, string]
      expect(total).toBe('2000')
      expect(Number(count)).toBeGreaterThanOrEqual(before)
      expect(Number(indexed)).toBe(2_000 + Number(count))
      reads += 1
    }
  }

  await Promise.all([keepBusy(), write(), read(), read()])
  expect(acknowledged).toBeGreaterThan(5)
  expect(reads).toBeGreaterThan(5)
  expect(await query(server.url, 'SELECT balance FROM account WHERE id = 3')).toEqual([
    [String(acknowledged)],
  ])
  expect(await query(server.url, 'PRAGMA integrity_check')).toEqual([['ok']])
})
