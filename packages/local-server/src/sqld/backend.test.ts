import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startLocalServer } from '../server.ts'
import { findSqld } from './binary.ts'

const isMissing = await findSqld().then(
  () => false,
  () => true,
)

test.skipIf(isMissing)('a server that has gone away is started again, with its data', async () => {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  try {
    await using server = await startLocalServer({ backend: 'sqld', dataDirectory })
    const run = async (sql: string): Promise<number> => {
      const body = JSON.stringify({ requests: [{ type: 'execute', stmt: { sql } }, { type: 'close' }] })
      return (await fetch(`${server.url}/v2/pipeline`, { method: 'POST', body })).status
    }
    expect(await run('CREATE TABLE t(a)')).toBe(200)
    const { pid } = JSON.parse(await readFile(join(dataDirectory, 'sqld', 'sqld.pid'), 'utf8')) as {
      pid: number
    }
    process.kill(pid, 'SIGKILL')
    await new Promise((resolve) => setTimeout(resolve, 40))
    expect(await Promise.all([run('INSERT INTO t VALUES (1)'), run('SELECT * FROM t')])).toEqual([200, 200])
  } finally {
    await rm(dataDirectory, { recursive: true, force: true })
  }
})
