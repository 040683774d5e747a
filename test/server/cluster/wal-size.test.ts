import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'

// Verifies the claims in docs/self-hosting.md about the WAL of libsql-server behind the control plane.

/** The size at which the WAL is truncated. */
const TRUNCATION_BYTES = 8 * 1_024 ** 2
const WRITER_COUNT = 8
const ROW_BYTES = 200_000
const INSERT = `INSERT INTO t VALUES (randomblob(${ROW_BYTES}))`

/** Starts a server with a table. @returns its client, its URL and a function that returns the size of its WAL */
async function startServerWithTable() {
  const dataDirectory = createTemporaryDirectory()
  const server = await startLocalServer({ backend: 'sqld', dataDirectory })
  const client = createClient({ url: server.url })
  onTestFinished(async () => {
    await client.close()
    await server.close()
  })
  await client.execute('CREATE TABLE t(a)')
  const [group = ''] = await readdir(join(dataDirectory, 'sqld'))
  const databases = join(dataDirectory, 'sqld', group, 'sqld', 'dbs')
  const [id = ''] = await readdir(databases)
  const walBytes = async (): Promise<number> => (await stat(join(databases, id, 'data-wal'))).size
  return { client, url: server.url, walBytes }
}

type ServerWithTable = Awaited<ReturnType<typeof startServerWithTable>>

/** Writes rows until there are enough, half of them in transactions. @returns the number of rows */
async function writeRows(
  { client }: ServerWithTable,
  isEnough: (rows: number) => Promise<boolean>,
): Promise<number> {
  let rows = 0
  let hasEnough = false
  const write = async (): Promise<void> => {
    while (!hasEnough) {
      rows += 1
      if (rows % 2 === 0) await client.execute(INSERT)
      else
        await client.transaction(async (tx) => {
          await tx.execute(INSERT)
        })
      hasEnough ||= await isEnough(rows)
    }
  }
  await Promise.all(Array.from({ length: WRITER_COUNT }, write))
  return rows
}

test('the WAL is truncated repeatedly while writers write and readers read', async () => {
  const server = await startServerWithTable()
  const stopController = new AbortController()
  const read = async (): Promise<void> => {
    while (!stopController.signal.aborted) {
      const transaction = server.client.transaction(
        async (tx) => {
          await tx.execute('SELECT count(*) FROM t')
          const readingMs = 50
          await sleep(readingMs)
        },
        { mode: 'deferred' },
      )
      await transaction
    }
  }
  const readers = [read(), read()]
  let [truncations, isLarge] = [0, false]
  const [targetTruncations, maxRows] = [4, 2_000]
  const rows = await writeRows(server, async (count) => {
    const bytes = await server.walBytes()
    if (isLarge && bytes < TRUNCATION_BYTES) truncations += 1
    isLarge = bytes > TRUNCATION_BYTES
    return truncations === targetTruncations || count === maxRows
  })
  stopController.abort()
  await Promise.all(readers)
  expect(truncations).toBe(targetTruncations)
  const { rows: counts } = await server.client.execute('SELECT count(*) AS n FROM t')
  expect(counts).toEqual([{ n: rows }])
})

test('the WAL is not truncated until an open read transaction ends', async () => {
  const server = await startServerWithTable()
  const rows = 200
  await server.client.transaction(
    async (tx) => {
      await tx.execute('SELECT count(*) FROM t')
      await writeRows(server, async (count) => count >= rows)
      expect(await server.walBytes()).toBeGreaterThan(rows * ROW_BYTES)
      expect((await tx.execute('SELECT count(*) AS n FROM t')).rows).toEqual([{ n: 0 }])
    },
    { mode: 'deferred' },
  )
  // even without another write
  await expect.poll(server.walBytes, { timeout: 60_000 }).toBe(0)
})
