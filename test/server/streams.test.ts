import { setTimeout as sleep } from 'node:timers/promises'
import { startLocalServer } from '@batonsql/local-server'
import { describe, expect, test } from 'vitest'
import { close, codes, execute, pipeline, query } from './wire.ts'

const ENDLESS_QUERY = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c'

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

describe('a client that disconnects', () => {
  test('ends its transaction, and statements that have not begun are not executed', async () => {
    await using server = await startLocalServer()
    await query(server.url, 'CREATE TABLE t(a)')
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

  test('while its write waits for the write lock removes the write from the queue', async () => {
    await using server = await startLocalServer()
    await query(server.url, 'CREATE TABLE t(a)')
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
