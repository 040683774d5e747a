import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { newDatabaseId } from '../control-plane/ids.ts'
import { newKeyPair } from '../control-plane/tokens/mint.ts'
import { startLocalServer } from '../server.ts'
import { findSqld } from './binary.ts'
import { SqldGroups } from './groups.ts'

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
    const [group = ''] = await readdir(join(dataDirectory, 'sqld'))
    const file = join(dataDirectory, 'sqld', group, 'sqld.pid')
    const { pid } = JSON.parse(await readFile(file, 'utf8')) as { pid: number }
    process.kill(pid, 'SIGKILL')
    await new Promise((resolve) => setTimeout(resolve, 40))
    expect(await Promise.all([run('INSERT INTO t VALUES (1)'), run('SELECT * FROM t')])).toEqual([200, 200])
  } finally {
    await rm(dataDirectory, { recursive: true, force: true })
  }
})

test.skipIf(isMissing)(
  'a data directory of a version with one server for all groups is refused, and left as it is',
  async () => {
    const dataDirectory = await mkdtemp(join(tmpdir(), 'baton-test-'))
    const old = join(dataDirectory, 'sqld', 'sqld', 'dbs', 'some-database')
    await mkdir(old, { recursive: true })
    await expect(startLocalServer({ backend: 'sqld', dataDirectory })).rejects.toThrow('of an older version')
    expect(await readdir(join(old, '..'))).toEqual(['some-database'])
    await rm(dataDirectory, { recursive: true })
  },
)

test('a database that was removed meanwhile has no streams, no usage and no answers', async () => {
  const groups = new SqldGroups({
    directory: '/nonexistent',
    isOpen: true,
    controlKey: newKeyPair(),
    sqldPath: undefined,
    groupOf: () => undefined,
    hasGroup: () => false,
  })
  const id = newDatabaseId()
  await groups.dropStreams(id)
  expect(await groups.topQueries(id)).toEqual([])
  await expect(groups.sampleUsage(id)).rejects.toThrow('has not been used')
  const request = { method: 'GET', path: '/dump', query: '', headers: {}, body: Readable.from([]) }
  const { signal } = new AbortController()
  expect(await groups.handle(id, { ...request, signal, remoteAddress: undefined })).toMatchObject({
    status: 404,
  })
})
