import { mkdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeEach, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { openOperatorAccount } from '../bootstrap.ts'
import { REGISTRY_FILE, Registry } from './registry.ts'

/** A registry with version 2 of the schema, from a server on which every feature was used once. */
const VERSION_2 = new URL('../../../../test/fixtures/registry-2.sql', import.meta.url)

let directory: string

beforeEach(() => {
  directory = createTemporaryDirectory()
})

const user = (username: string) => ({ id: `id of ${username}`, username, name: 'N', email: 'e@x' })

test('stores data in a file that other users cannot read', async () => {
  const first = await Registry.open(directory)
  first.transaction(() => first.users.put(user('ada')))
  first.transaction(() => first.users.put({ ...user('ada'), name: 'Ada' }))
  first.transaction(() => first.users.put(user('bob')))
  first.transaction(() => first.users.delete('id of bob'))
  first.close()
  first.close()
  expect(() => first.transaction(() => first.users.put(user('late')))).toThrow('the registry is closed')
  const second = await Registry.open(directory)
  expect(second.users.rows).toEqual([{ ...user('ada'), name: 'Ada' }])
  second.close()
  expect((await stat(join(directory, REGISTRY_FILE))).mode & 0o077).toBe(0)
})

test('a failed transaction changes neither the file nor the rows in memory', async () => {
  const registry = await Registry.open(directory)
  registry.transaction(() => registry.users.put(user('ada')))
  const failing = (): void =>
    registry.transaction(() => {
      registry.users.put({ ...user('ada'), name: 'other' })
      registry.users.put(user('bob'))
      registry.users.put({ ...user('ada'), id: 'twice' })
    })
  expect(failing).toThrow('another user already has the key ada')
  expect(registry.users.rows).toEqual([user('ada')])
  expect([registry.findUser('ada'), registry.findUser('bob')]).toEqual([user('ada'), undefined])
  registry.close()
})

test('an index is updated when a row changes its key', async () => {
  const registry = await Registry.open(directory)
  registry.transaction(() => registry.users.put(user('ada')))
  registry.transaction(() => registry.users.put({ ...user('ada'), username: 'countess' }))
  expect([registry.findUser('ada'), registry.findUser('countess')?.id]).toEqual([undefined, 'id of ada'])
  registry.close()
})

test('a file from a newer version is rejected, and so is a file that is not a database', async () => {
  const registry = await Registry.open(directory)
  registry.file.run('PRAGMA user_version = 99')
  registry.close()
  await expect(Registry.open(directory)).rejects.toThrow('written by a newer version')
  await rm(join(directory, REGISTRY_FILE))
  await writeFile(join(directory, REGISTRY_FILE), 'x'.repeat(5_000))
  await expect(Registry.open(directory)).rejects.toThrow(`the registry ${join(directory, REGISTRY_FILE)}`)
})

test('keeps usage recorded by version 3, and can split an hour between two organizations', async () => {
  const oldRegistry = await Registry.open(directory)
  oldRegistry.file.run('DROP TABLE usage_hour')
  oldRegistry.file.run(`CREATE TABLE usage_hour (
    database TEXT NOT NULL, hour INTEGER NOT NULL, organization TEXT NOT NULL, rows_read INTEGER NOT NULL,
    rows_written INTEGER NOT NULL, bytes_synced INTEGER NOT NULL, PRIMARY KEY (database, hour)) WITHOUT ROWID`)
  oldRegistry.file.run('CREATE INDEX usage_hour_by_organization ON usage_hour (organization, hour)')
  oldRegistry.file.run("INSERT INTO usage_hour VALUES ('app', 7, 'mine', 1, 2, 3)")
  oldRegistry.file.run('PRAGMA user_version = 3')
  oldRegistry.close()
  const registry = await Registry.open(directory)
  registry.file.run("INSERT INTO usage_hour VALUES ('app', 7, 'yours', 4, 5, 6)")
  expect(registry.file.all('SELECT * FROM usage_hour').map((row) => Object.values(row as object))).toEqual([
    ['app', 7, 'mine', 1, 2, 3],
    ['app', 7, 'yours', 4, 5, 6],
  ])
  registry.close()
})

test('a file from an earlier version is migrated, even if it was open when its server was killed', async () => {
  for (const wasKilled of [false, true]) {
    const path = join(directory, REGISTRY_FILE)
    await rm(path, { force: true })
    const database = new DatabaseSync(path)
    database.exec('PRAGMA journal_mode = WAL')
    database.exec(await readFile(VERSION_2, 'utf8'))
    if (wasKilled) {
      // the WAL has not been checkpointed, and both files are as that version left them
      const [file, log] = [await readFile(path), await readFile(`${path}-wal`)]
      database.close()
      file.write('in use by Baton\0')
      await writeFile(path, file)
      await writeFile(`${path}.wal`, log)
    } else database.close()
    const registry = await Registry.open(directory)
    expect(openOperatorAccount(registry, 'local').owner.username).toBe('owner')
    const key = { privatePem: 'PRIVATE key in PEM', publicPem: 'PUBLIC key in PEM' }
    expect(registry.users.rows.map(({ username }) => username)).toEqual(['owner', 'ada'])
    expect(registry.organizations.rows).toMatchObject([{ slug: 'local', overages: false }])
    expect(registry.members.rows).toMatchObject([{ role: 'owner' }])
    expect(registry.invites.rows).toMatchObject([{ id: '1', email: 'new@x', createdAt: 1_795_418_626_167 }])
    expect(registry.groups.rows).toMatchObject([
      { name: 'default', isArchived: false, locations: ['local'], key },
      { name: 'g2', isArchived: false, locations: ['local'], key },
    ])
    const schema = registry.databases.rows.find(({ name }) => name === 'sch')?.id
    expect(registry.databases.rows).toMatchObject([
      { name: 'default', state: 'ready', parent: null, isSchema: false, schema: null, key },
      { name: 'app', configuration: { sizeLimitBytes: 2 ** 30, blockWrites: true, deleteProtection: true } },
      { name: 'sch', isSchema: true },
      { name: 'kid', isSchema: false, schema },
      { name: 'copy', parent: { name: 'app' } },
      { name: 'used' },
    ])
    expect(registry.apiTokens.rows.map(({ name }) => name)).toEqual(['owner', 'scoped', 'one', 'ada'])
    expect(registry.file.all('SELECT rows_written FROM usage_hour')).toEqual([{ rows_written: 4 }])
    registry.close()
  }
})

test('a file that cannot be examined does not count as lost', async () => {
  await mkdir(join(directory, 'databases', crypto.randomUUID(), 'data.db'), { recursive: true })
  await symlink(REGISTRY_FILE, join(directory, REGISTRY_FILE))
  await expect(Registry.open(directory)).rejects.toThrow('ELOOP')
})
