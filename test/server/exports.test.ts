import { existsSync, globSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { exportFromDirectory, startLocalServer } from '@batonsql/local-server'
import { expect, test, vi } from 'vitest'
import { closeOnError } from '../support/close-on-error.ts'
import { hasSqld } from '../support/has-sqld.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { close, execute, pipeline, query } from './wire.ts'

async function startServerWithTable() {
  const dataDirectory = createTemporaryDirectory()
  const exports = join(dataDirectory, 'databases', 'exports')
  await mkdir(exports, { recursive: true })
  await writeFile(join(exports, '7.db'), 'left by a process that was killed')
  const server = await startLocalServer({ backend: 'embedded', auth: true, dataDirectory })
  return await closeOnError(server, async () => {
    const { url, authToken } = await server.createDatabase('app')
    const owner = { token: authToken as string }
    const reader = { token: await server.createToken('app', { authorization: 'read-only' }) }
    await query(url, 'create table t(a)', owner)
    await query(url, 'insert into t select zeroblob(100000) from generate_series(1, 40)', owner)
    const address = new URL('export/1', url.endsWith('/') ? url : `${url}/`)
    const headers = { authorization: `Bearer ${reader.token}` }
    return { server, url, owner, reader, address, headers, exports }
  })
}

/** Lists the export files that this process has open. */
function listOpenFiles(folder: string): string[] {
  if (!existsSync('/proc/self/fd')) return []
  const links = readdirSync('/proc/self/fd').map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`)
    } catch {
      return ''
    }
  })
  return links.filter((link) => link.startsWith(folder))
}

test('neither a client that disconnects nor a killed process leaves an export file behind', async () => {
  const { server, address, headers, exports } = await startServerWithTable()
  await using _ = server
  expect(existsSync(exports)).toBe(false)
  const abandonedExports = Array.from({ length: 40 }, async (_unused, number) => {
    const controller = new AbortController()
    const response = fetch(address, { headers, signal: controller.signal })
    if (number % 2 === 0) {
      const { status, body } = await response
      expect([200, 503]).toContain(status)
      const bodyReader = body?.getReader()
      await bodyReader?.read()
    } else setTimeout(() => controller.abort(), number)
    controller.abort()
    await response.catch(() => {})
  })
  await Promise.all(abandonedExports)
  await expect
    .poll(() => [existsSync(exports) ? readdirSync(exports) : [], listOpenFiles(exports)], {
      timeout: 60_000,
    })
    .toEqual([[], []])
  const exportedBytes = Buffer.from(await (await fetch(address, { headers })).arrayBuffer())
  expect(exportedBytes.subarray(0, 15).toString()).toBe('SQLite format 3')
})

test('an export with a read-only token is a snapshot, and does not affect an open transaction', async () => {
  const { server, url, owner, address, headers, exports } = await startServerWithTable()
  await using _ = server
  const transaction = await pipeline(
    url,
    [execute('begin immediate'), execute("insert into t values ('open')")],
    owner,
  )
  const exportedBytes = Buffer.from(await (await fetch(address, { headers })).arrayBuffer())
  const commit = await pipeline(url, [execute("insert into t values ('more')"), execute('commit'), close], {
    ...owner,
    baton: transaction.baton,
  })
  expect(commit.results.map(({ type }) => type)).toEqual(['ok', 'ok', 'ok'])
  expect(await query(url, 'select count(*) from t', owner)).toEqual([['42']])
  const path = `${exports}-copy.db`
  await writeFile(path, exportedBytes)
  const file = new DatabaseSync(path)
  expect(file.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
  expect(file.prepare('select count(*) as count from t').get()).toEqual({ count: 40 })
  file.close()
})

test('exporting a database that a data directory does not have creates nothing in it', async () => {
  const dataDirectory = createTemporaryDirectory()
  const server = await startLocalServer({ dataDirectory })
  await server.deleteDatabase('default')
  await server.close()
  const file = join(dataDirectory, 'out.db')
  await expect(exportFromDirectory(dataDirectory, 'default', file)).rejects.toThrow(
    'database "default" does not exist',
  )
  expect(readdirSync(join(dataDirectory, 'databases'))).toEqual([])
})

test.each(['embedded', ...(hasSqld ? ['sqld' as const] : [])] as const)(
  'a database of a directory with another organization is exported: %s',
  async (backend) => {
    const dataDirectory = createTemporaryDirectory()
    const platform = { organization: 'acme' }
    const server = await startLocalServer({ backend, dataDirectory, platform, databases: { app: {} } })
    await server.close()
    const file = join(dataDirectory, 'out.db')
    await exportFromDirectory(dataDirectory, 'app', file)
    // only the user who exports it may read it
    expect(statSync(file).mode & 0o777).toBe(0o600)
  },
)

test.each(['embedded', ...(hasSqld ? ['sqld' as const] : [])] as const)(
  'the error of a damaged database is a sentence: %s',
  async (backend) => {
    const dataDirectory = createTemporaryDirectory()
    const server = await startLocalServer({ backend, dataDirectory })
    const id = server.databaseId('default')
    await server.close()
    for (const file of globSync(`${dataDirectory}/**/${id}/data*`))
      if (/data(\.db)?$/.test(file)) await writeFile(file, 'not a database'.repeat(1_000))
      else await rm(file)
    vi.spyOn(console, 'error').mockReturnValue()
    await expect(
      exportFromDirectory(dataDirectory, 'default', join(dataDirectory, 'out.db')),
    ).rejects.toThrow(/^(?:libsql-server cannot use this database: .*|file is not a database)$/)
  },
)
