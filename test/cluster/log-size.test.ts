import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, onTestFinished, test } from 'vitest'

// What docs/self-hosting.md says of the log of libsql-server behind the control plane.

/** Where the log is emptied. */
const LOG_BYTES = 8 * 1_024 ** 2
const WRITERS = 8
const ROW_BYTES = 200_000
const INSERT = `INSERT INTO t VALUES (randomblob(${ROW_BYTES}))`
/** What eight writers add between two looks at the log, with room for a machine that is slow to look. */
const MARGIN = 2 * LOG_BYTES

/** A server with a table, and the size of its log. */
async function startWithTable() {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  const server = await startLocalServer({ backend: 'sqld', dataDirectory })
  const client = createClient({ url: server.url })
  onTestFinished(async () => {
    await client.close()
    await server.close()
    await rm(dataDirectory, { recursive: true, force: true })
  })
  await client.execute('CREATE TABLE t(a)')
  const [group = ''] = await readdir(join(dataDirectory, 'sqld'))
  const databases = join(dataDirectory, 'sqld', group, 'sqld', 'dbs')
  const [id = ''] = await readdir(databases)
  const logBytes = async (): Promise<number> => (await stat(join(databases, id, 'data-wal'))).size
  return { client, url: server.url, logBytes }
}

/** Writes so many rows, of each half in a transaction. @returns the largest size of the log meanwhile */
async function writeRows(count: number, { client, logBytes }: Awaited<ReturnType<typeof startWithTable>>) {
  let [begun, largest] = [0, 0]
  const write = async (): Promise<void> => {
    while (begun < count) {
      begun += 1
      if (begun % 2 === 0) await client.execute(INSERT)
      else
        await client.transaction(async (tx) => {
          await tx.execute(INSERT)
        })
      largest = Math.max(largest, await logBytes())
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, write))
  return largest
}

test('the log stays small while writers write and readers read', async () => {
  const served = await startWithTable()
  const over = new AbortController()
  const read = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const transaction = served.client.transaction(
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
  const rows = 400
  const largest = await writeRows(rows, served)
  over.abort()
  await Promise.all(readers)
  expect(rows * ROW_BYTES).toBeGreaterThan(3 * (LOG_BYTES + MARGIN))
  expect(largest).toBeLessThan(LOG_BYTES + MARGIN)
  const { rows: counted } = await served.client.execute('SELECT count(*) AS n FROM t')
  expect(counted).toEqual([{ n: rows }])
})

test('a read transaction that stays open keeps the log; its end empties it', async () => {
  const served = await startWithTable()
  const rows = 200
  await served.client.transaction(
    async (tx) => {
      await tx.execute('SELECT count(*) FROM t')
      expect(await writeRows(rows, served)).toBeGreaterThan((rows * ROW_BYTES) / 2)
      expect((await tx.execute('SELECT count(*) AS n FROM t')).rows).toEqual([{ n: 0 }])
    },
    { mode: 'deferred' },
  )
  // without another write, too
  await expect.poll(served.logBytes, { timeout: 20_000 }).toBe(0)
})
