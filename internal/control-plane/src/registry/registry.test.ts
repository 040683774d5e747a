import { mkdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { newOrganization } from './new-rows.ts'
import { REGISTRY_FILE, Registry } from './registry.ts'
import type { DatabaseRow } from './rows.ts'

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

test('a failed transaction leaves nothing in an index whose keys depend on another of its rows', async () => {
  const registry = await Registry.open(directory)
  const add = (suffix: string): void => {
    const organization = { ...newOrganization('acme', 'Acme', 'team', 'free'), id: `org${suffix}` }
    registry.organizations.put(organization)
    registry.databases.put({ id: `db${suffix}`, organization: organization.id, name: 'app' } as DatabaseRow)
  }
  const failing = (): void =>
    registry.transaction(() => {
      add('1')
      throw new Error('fails')
    })
  expect(failing).toThrow('fails')
  expect(registry.findByLabel('app-acme')).toBeUndefined()
  registry.transaction(() => add('2'))
  expect(registry.findByLabel('app-acme')?.id).toBe('db2')
  registry.transaction(() => registry.databases.delete('db2'))
  expect(registry.findByLabel('app-acme')).toBeUndefined()
  registry.close()
})

test('an index is updated when a row changes its key', async () => {
  const registry = await Registry.open(directory)
  registry.transaction(() => registry.users.put(user('ada')))
  registry.transaction(() => registry.users.put({ ...user('ada'), username: 'countess' }))
  expect([registry.findUser('ada'), registry.findUser('countess')?.id]).toEqual([undefined, 'id of ada'])
  registry.close()
})

test('a file from another version is rejected, and so is a file that is not a database', async () => {
  for (const [version, reason] of [
    [99, 'written by a newer version'],
    [3, 'written by an unpublished version'],
  ] as const) {
    const registry = await Registry.open(directory)
    registry.file.run(`PRAGMA user_version = ${version}`)
    registry.close()
    await expect(Registry.open(directory)).rejects.toThrow(reason)
    await rm(join(directory, REGISTRY_FILE))
  }
  await writeFile(join(directory, REGISTRY_FILE), 'x'.repeat(5_000))
  await expect(Registry.open(directory)).rejects.toThrow(`the registry ${join(directory, REGISTRY_FILE)}`)
})

test('an hour of usage can be split between two organizations', async () => {
  const registry = await Registry.open(directory)
  registry.file.run("INSERT INTO usage_hour VALUES ('app', 7, 'mine', 1, 2, 3)")
  registry.file.run("INSERT INTO usage_hour VALUES ('app', 7, 'yours', 4, 5, 6)")
  expect(registry.file.all('SELECT * FROM usage_hour').map((row) => Object.values(row as object))).toEqual([
    ['app', 7, 'mine', 1, 2, 3],
    ['app', 7, 'yours', 4, 5, 6],
  ])
  registry.close()
})

test('a file that cannot be examined does not count as lost', async () => {
  await mkdir(join(directory, 'databases', crypto.randomUUID(), 'data.db'), { recursive: true })
  await symlink(REGISTRY_FILE, join(directory, REGISTRY_FILE))
  await expect(Registry.open(directory)).rejects.toThrow('ELOOP')
})
