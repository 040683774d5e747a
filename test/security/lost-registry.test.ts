import { cp, readdir, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { describe, expect, test, vi } from 'vitest'
import { query } from '../server/wire.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { BACKENDS } from './attacked-server.ts'

describe.each(BACKENDS)('%s', (backend) => {
  /** Creates a data directory with a row in the database `app`, and a backup of its registry. */
  async function createDirectory() {
    const directory = createTemporaryDirectory()
    const dataDirectory = join(directory, 'data')
    await using server = await startLocalServer({ backend, dataDirectory })
    const { url } = await server.createDatabase('app')
    await query(url, 'create table t as select 1 as a')
    await server.close()
    const registry = join(dataDirectory, 'registry.db')
    const backup = join(directory, 'backup.db')
    await cp(registry, backup)
    return { dataDirectory, registry, backup }
  }
  const removeWal = async (registry: string): Promise<void> => {
    for (const suffix of ['-wal', '-shm']) await rm(registry + suffix, { force: true })
  }

  test.each<{ name: string; damage: (registry: string) => Promise<unknown> }>([
    { name: 'missing', damage: (registry) => rm(registry) },
    { name: 'empty', damage: (registry) => truncate(registry) },
  ])('a server whose registry is $name does not start, and continues from a backup', async ({ damage }) => {
    const { dataDirectory, registry, backup } = await createDirectory()
    await removeWal(registry)
    await damage(registry)
    const before = await readdir(dataDirectory, { recursive: true })
    for (const attempt of [1, 2])
      await expect(startLocalServer({ backend, dataDirectory }), String(attempt)).rejects.toThrow(
        /registry\.db is missing or has no databases, but .* has 2 databases.*cp BACKUP\/registry\.db/s,
      )
    expect((await readdir(dataDirectory, { recursive: true })).sort()).toEqual(before.sort())
    await cp(backup, registry)
    await using server = await startLocalServer({ backend, dataDirectory })
    expect(await query(`${server.url}/app/`, 'select a from t')).toEqual([['1']])
  })

  test('a server whose registry lists none of its databases does not start', async () => {
    const { dataDirectory, registry } = await createDirectory()
    const other = await createDirectory()
    {
      await using server = await startLocalServer({ backend, dataDirectory: other.dataDirectory })
      for (const name of ['app', 'default']) await server.deleteDatabase(name)
    }
    await removeWal(registry)
    await cp(other.registry, registry)
    await expect(startLocalServer({ backend, dataDirectory })).rejects.toThrow('has 2 databases')
    // the data directory that the registry belongs to has none
    await using server = await startLocalServer({ backend, dataDirectory: other.dataDirectory })
    expect(server.url).toContain('http')
  })

  test('prints which databases an older registry does not contain, and other programs can read them', async () => {
    const { dataDirectory, backup } = await createDirectory()
    const crashed = join(createTemporaryDirectory(), 'data')
    {
      await using server = await startLocalServer({ backend, dataDirectory })
      const { url } = await server.createDatabase('newer')
      await query(url, 'create table t as select 2 as a')
      // the files that a killed process leaves
      await cp(dataDirectory, crashed, { recursive: true })
    }
    const registry = join(crashed, 'registry.db')
    await removeWal(registry)
    await cp(backup, registry)
    const log = vi.spyOn(console, 'error').mockImplementation(() => {})
    await using server = await startLocalServer({ backend, dataDirectory: crashed })
    expect(log.mock.calls.flat().join('\n')).toMatch(/-set-aside: [0-9a-f-]{36}$/m)
    expect(await query(`${server.url}/app/`, 'select a from t')).toEqual([['1']])
    const files = await readdir(crashed, { recursive: true })
    const file = files.find((path) => /-set-aside\/[^/]+\/data(?:\.db)?$/.test(path)) as string
    const { url } = await server.createDatabase('recovered', { fromFile: join(crashed, file) })
    expect(await query(url, 'select a from t')).toEqual([['2']])
  })
})
