import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { BackendRefusal, type DatabaseBackend, type DatabaseId, type DatabaseSettings } from '../backend.ts'
import { type Home, openHome } from './bootstrap.ts'
import { Databases, NEW_CONFIGURATION } from './databases.ts'
import { Registry } from './registry/registry.ts'
import type { DatabaseState } from './registry/rows.ts'
import { newKeyPair } from './tokens/mint.ts'

/** A back end that has databases and nothing in them. */
class EmptyBackend {
  readonly present = new Set<DatabaseId>()
  /** Ids in the order in which they were asked for. */
  readonly asked: DatabaseId[] = []
  create = async (id: DatabaseId): Promise<void> => {
    this.asked.push(id)
    this.present.add(id)
  }
  /** The keys that each database was given last. */
  readonly keys = new Map<DatabaseId, readonly string[]>()
  applySettings = async (id: DatabaseId, { keys }: DatabaseSettings): Promise<boolean> => {
    this.keys.set(id, keys)
    return this.present.has(id)
  }
  remove = async (id: DatabaseId): Promise<void> => void this.present.delete(id)
}

let registry: Registry
let home: Home
let backend: EmptyBackend
let databases: Databases

beforeEach(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  const opened = await Registry.open(directory)
  registry = opened
  home = await openHome(opened, directory, 'local')
  backend = new EmptyBackend()
  databases = new Databases({
    registry,
    backend: backend as Partial<DatabaseBackend> as DatabaseBackend,
    beforeRemoval: async () => {},
  })
  onTestFinished(async () => {
    opened.close()
    await rm(directory, { recursive: true })
  })
})

function create(name: string) {
  const [group] = registry.groups.rows
  if (group === undefined) throw new Error('no group')
  const source = { type: 'empty' } as const
  const { organization } = home
  return databases.create({
    organization,
    group,
    name,
    source,
    configuration: NEW_CONFIGURATION,
    readyDelayMs: 0,
  })
}

const states = (): DatabaseState[] => registry.databases.rows.map(({ state }) => state)

test('while it is made it cannot be found as ready, and its name is taken', async () => {
  const seen: unknown[] = []
  const { create: really } = backend
  backend.create = async (id) => {
    seen.push(states(), registry.findDatabase(home.organization.id, 'a')?.id === id)
    await really(id)
  }
  expect((await create('a')).state).toBe('ready')
  expect(seen).toEqual([['creating'], true])
})

test('what the back end refuses leaves nothing, and the next attempt has another id', async () => {
  const { create: really } = backend
  backend.create = async (id) => {
    await really(id)
    throw new BackendRefusal('the dump is empty')
  }
  await expect(create('a')).rejects.toMatchObject({ status: 400, message: 'the dump is empty' })
  expect([states(), backend.present.size]).toEqual([[], 0])
  backend.create = really
  await create('a')
  expect(new Set(backend.asked).size).toBe(2)
})

test('a key that is rotated while a database is made is the one that counts', async () => {
  const { create: really } = backend
  const rotated = newKeyPair()
  backend.create = async (id) => {
    await really(id)
    const [group] = registry.groups.rows
    if (group !== undefined) registry.transaction(() => registry.groups.put({ ...group, key: rotated }))
  }
  const { id, key } = await create('a')
  expect(backend.keys.get(id)).toEqual([key.publicPem, rotated.publicPem])
})

test('a group that was given away before its database is made has none of it', async () => {
  const [group] = registry.groups.rows
  if (group === undefined) throw new Error('no group')
  const organization = { ...home.organization, id: 'who had it before' }
  const wanted = { organization, group, name: 'a', source: { type: 'empty' } as const, readyDelayMs: 0 }
  await expect(databases.create({ ...wanted, configuration: NEW_CONFIGURATION })).rejects.toMatchObject({
    status: 409,
  })
  expect([states(), backend.asked]).toEqual([[], []])
})

test('reconcile finishes what a crash left: half made goes, half removed goes, lost is marked', async () => {
  const [made, half, dying, gone] = [
    await create('made'),
    await create('half'),
    await create('dying'),
    await create('gone'),
  ]
  registry.transaction(() => {
    registry.databases.put({ ...half, state: 'creating' })
    registry.databases.put({ ...dying, state: 'deleting' })
  })
  backend.present.delete(gone.id)
  await databases.reconcile()
  expect(registry.databases.rows.map(({ name, state }) => [name, state])).toEqual([
    ['made', 'ready'],
    ['gone', 'lost'],
  ])
  expect([...backend.present]).toEqual([made.id])
})

test('a name is free as soon as its database is being removed; a new one has another id', async () => {
  const old = await create('a')
  let finish = (): void => {}
  backend.remove = async () => await new Promise<void>((resolve) => (finish = resolve))
  const removing = databases.remove(old)
  const young = await create('a')
  expect(registry.findDatabase(home.organization.id, 'a')?.id).toBe(young.id)
  await new Promise((resolve) => setImmediate(resolve))
  finish()
  await removing
  expect(registry.databases.rows.map(({ id }) => id)).toEqual([young.id])
})
