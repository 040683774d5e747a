import { generateKeyPairSync } from 'node:crypto'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { openHome } from '../bootstrap.ts'
import { REGISTRY_FILE, Registry } from './registry.ts'

let directory: string

beforeEach(async () => {
  const made = await mkdtemp(join(tmpdir(), 'baton-test-'))
  directory = made
  onTestFinished(() => rm(made, { recursive: true, force: true }))
})

const user = (username: string) => ({ id: `id of ${username}`, username, name: 'N', email: 'e@x' })

test('what was written is there when it is opened again, in a file that others cannot read', async () => {
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

test('a transaction that fails leaves the file and the memory as they were', async () => {
  const registry = await Registry.open(directory)
  registry.transaction(() => registry.users.put(user('ada')))
  const failing = (): void =>
    registry.transaction(() => {
      registry.users.put({ ...user('ada'), name: 'other' })
      registry.users.put(user('bob'))
      registry.users.put({ ...user('ada'), id: 'twice' })
    })
  expect(failing).toThrow('UNIQUE constraint failed: user.username')
  expect(registry.users.rows).toEqual([user('ada')])
  expect([registry.findUser('ada'), registry.findUser('bob')]).toEqual([user('ada'), undefined])
  registry.close()
})

test('an index follows a row that changes its key', async () => {
  const registry = await Registry.open(directory)
  registry.transaction(() => registry.users.put(user('ada')))
  registry.transaction(() => registry.users.put({ ...user('ada'), username: 'countess' }))
  expect([registry.findUser('ada'), registry.findUser('countess')?.id]).toEqual([undefined, 'id of ada'])
  registry.close()
})

test('a file of a newer version is refused, and what is no database', async () => {
  const registry = await Registry.open(directory)
  registry.file.run('PRAGMA user_version = 99')
  registry.close()
  await expect(Registry.open(directory)).rejects.toThrow('written by a newer version')
  await rm(join(directory, REGISTRY_FILE))
  await writeFile(join(directory, REGISTRY_FILE), 'x'.repeat(5_000))
  await expect(Registry.open(directory)).rejects.toThrow(`the registry ${join(directory, REGISTRY_FILE)}`)
})

test('the files of an older version are taken over once', async () => {
  const id = '7d1f0c52-3b7e-4e0a-9c55-0a4e0f2b6c11'
  const settings = { sizeLimitBytes: 4_096, blockReads: false, blockWrites: true, blockReason: 'moving' }
  await writeFile(
    join(directory, 'registry.json'),
    JSON.stringify({ databases: [{ name: 'app', id, settings }] }),
  )
  const { privateKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  await writeFile(join(directory, 'signing-key.pem'), pem)
  for (const _ of [1, 2]) {
    const registry = await Registry.open(directory)
    const { organization } = await openHome(registry, directory, 'local')
    const row = registry.findDatabase(organization.id, 'app')
    expect(row).toMatchObject({ id, state: 'ready', configuration: settings })
    expect(registry.groups.get(row?.group ?? '')?.key.privatePem).toBe(pem)
    registry.close()
    expect(await readdir(directory)).toEqual([REGISTRY_FILE])
  }
  const registry = await Registry.open(directory)
  await expect(openHome(registry, directory, 'another')).rejects.toThrow(
    'belongs to the organization "local"',
  )
  registry.close()
})
