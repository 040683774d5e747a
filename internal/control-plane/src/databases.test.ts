import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { newKeyPair } from '@batonsql/server-common/auth'
import {
  BackendError,
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSettings,
} from '@batonsql/server-common/backend'
import { errorResponse } from '@batonsql/server-common/http'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import { type OperatorAccount, openOperatorAccount } from './bootstrap.ts'
import { Databases, NEW_CONFIGURATION, type NewDatabase } from './databases.ts'
import { newGroup } from './registry/new-rows.ts'
import { Registry } from './registry/registry.ts'
import type { DatabaseState, GroupRow } from './registry/rows.ts'

/** A back end whose databases are empty. */
class EmptyBackend {
  readonly present = new Set<DatabaseId>()
  /** Ids in the order in which they were requested. */
  readonly requestedIds: DatabaseId[] = []
  create = async (id: DatabaseId): Promise<void> => {
    this.requestedIds.push(id)
    this.present.add(id)
  }
  /** The latest keys of each database. */
  readonly keys = new Map<DatabaseId, readonly string[]>()
  applySettings = async (id: DatabaseId, { keys }: DatabaseSettings): Promise<boolean> => {
    this.keys.set(id, keys)
    return this.present.has(id)
  }
  remove = async (id: DatabaseId): Promise<void> => void this.present.delete(id)
}

let registry: Registry
let operator: OperatorAccount
let backend: EmptyBackend
let databases: Databases

beforeEach(async () => {
  const directory = createTemporaryDirectory()
  const newRegistry = await Registry.open(directory)
  registry = newRegistry
  operator = openOperatorAccount(newRegistry, 'local')
  backend = new EmptyBackend()
  databases = new Databases({
    registry,
    backend: backend as Partial<DatabaseBackend> as DatabaseBackend,
    beforeRemoval: async () => {},
    onRemoval: async () => {},
  })
  onTestFinished(async () => {
    newRegistry.close()
  })
})

function create(name: string, options: Partial<NewDatabase> = {}) {
  const [group] = registry.groups.rows
  if (group === undefined) throw new Error('no group')
  const { organization } = operator
  return databases.create({
    organization,
    group,
    name,
    source: { type: 'empty' },
    configuration: NEW_CONFIGURATION,
    readyDelayMs: 0,
    ...options,
  })
}

const states = (): DatabaseState[] => registry.databases.rows.map(({ state }) => state)

test('a database that is being created is not ready, and its name is taken', async () => {
  const observed: unknown[] = []
  const { create: original } = backend
  backend.create = async (id) => {
    observed.push(states(), registry.findDatabase(operator.organization.id, 'a')?.id === id)
    await original(id)
  }
  expect((await create('a')).state).toBe('ready')
  expect(observed).toEqual([['creating'], true])
})

test('keeps no trace of a database that the back end rejects, and uses a new id for the next attempt', async () => {
  const { create: original } = backend
  backend.create = async (id) => {
    await original(id)
    throw new BackendError('the dump is empty')
  }
  await expect(create('a')).rejects.toMatchObject({ status: 400, message: 'the dump is empty' })
  expect([states(), backend.present.size]).toEqual([[], 0])
  backend.create = original
  await create('a')
  expect(new Set(backend.requestedIds).size).toBe(2)
})

test('a database that is removed or restored while it is being copied is a conflict', async () => {
  const parent = await create('a')
  backend.create = async () => {
    await databases.remove(parent)
    throw new BackendError('the file of this database is missing or empty')
  }
  await expect(create('b', { source: { type: 'fork', from: parent.id }, parent })).rejects.toMatchObject({
    status: 409,
    message: 'database a was removed or restored while it was being copied',
  })
})

test.each([
  ['again, after a restart of the server', (loads: number) => (loads === 1 ? 502 : 400), 2],
  ['at most three times', () => 502, 3],
  ['once, if the server does not load it', () => 400, 1],
])('a dump is loaded %s', async (_, getStatus, loads) => {
  const { create: original } = backend
  backend.create = async (id) => {
    expect(backend.present.size).toBe(0)
    await original(id)
  }
  const file = join(createTemporaryDirectory(), 'dump.sql')
  writeFileSync(file, 'CREATE TABLE t (a);')
  const status = () => getStatus(backend.requestedIds.length)
  Object.assign(backend, { handle: async () => errorResponse(status(), `status ${status()}`) })
  await expect(create('a', { source: { type: 'dump', file } })).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining(`status ${getStatus(loads)}`),
  })
  expect(backend.requestedIds.length).toBe(loads)
  expect([states(), backend.present.size]).toEqual([[], 0])
})

test('a database uses the newest key, even if the key is rotated while the database is being created', async () => {
  const { create: original } = backend
  const newKey = newKeyPair()
  backend.create = async (id) => {
    await original(id)
    const [group] = registry.groups.rows
    if (group !== undefined) registry.transaction(() => registry.groups.put({ ...group, key: newKey }))
  }
  const { id, key } = await create('a')
  expect(backend.keys.get(id)).toEqual([key.publicPem, newKey.publicPem])
})

test('rejects the creation of a database if its group is transferred at the same time', async () => {
  const [group] = registry.groups.rows
  if (group === undefined) throw new Error('no group')
  const organization = { ...operator.organization, id: 'previous owner' }
  const options = { organization, group, name: 'a', source: { type: 'empty' } as const, readyDelayMs: 0 }
  await expect(databases.create({ ...options, configuration: NEW_CONFIGURATION })).rejects.toMatchObject({
    status: 409,
  })
  expect([states(), backend.requestedIds]).toEqual([[], []])
})

test.each<[string, (group: GroupRow) => void]>([
  ['removed', ({ id }) => registry.groups.delete(id)],
  ['archived', (group) => registry.groups.put({ ...group, isArchived: true })],
  ['transferred', (group) => registry.groups.put({ ...group, organization: 'next owner' })],
])('does not move a database to a group that is %s meanwhile', async (_, change) => {
  const row = await create('a')
  const group = newGroup(operator.organization.id, 'b', 'local', newKeyPair())
  registry.transaction(() => registry.groups.put(group))
  const move: DatabaseBackend['move'] = async (_id, _group, _settings, commit) => {
    registry.transaction(() => change(group))
    commit()
  }
  Object.assign(backend, { move, revokeAccess: async () => {} })
  await expect(databases.move(row, group, () => {})).rejects.toMatchObject({
    status: 409,
    message: 'database a or its group was changed in the meantime',
  })
  expect(registry.databases.get(row.id)).toEqual(row)
})

test('`reconcile` cleans up after a crash by deleting databases that were partly created or removed, and marking missing ones as lost', async () => {
  const [created, creating, deleting, missing] = [
    await create('made'),
    await create('creating'),
    await create('deleting'),
    await create('gone'),
  ]
  registry.transaction(() => {
    registry.databases.put({ ...creating, state: 'creating' })
    registry.databases.put({ ...deleting, state: 'deleting' })
  })
  backend.present.delete(missing.id)
  await databases.reconcile()
  expect(registry.databases.rows.map(({ name, state }) => [name, state])).toEqual([
    ['made', 'ready'],
    ['gone', 'lost'],
  ])
  expect([...backend.present]).toEqual([created.id])
})

test('a name becomes available as soon as the removal of its database begins, and the new database has another id', async () => {
  const oldDatabase = await create('a')
  let finish = (): void => {}
  backend.remove = async () => await new Promise<void>((resolve) => (finish = resolve))
  const removal = databases.remove(oldDatabase)
  const replacement = await create('a')
  expect(registry.findDatabase(operator.organization.id, 'a')?.id).toBe(replacement.id)
  await new Promise((resolve) => setImmediate(resolve))
  finish()
  await removal
  expect(registry.databases.rows.map(({ id }) => id)).toEqual([replacement.id])
})

test('changes to a database are applied one after the other', async () => {
  const { id } = await create('a')
  let runningCount = 0
  const counts: number[] = []
  backend.applySettings = async () => {
    runningCount += 1
    counts.push(runningCount)
    await new Promise((resolve) => setImmediate(resolve))
    runningCount -= 1
    return true
  }
  const [first, second] = [databases.apply(id), databases.apply(id)]
  await first
  // while the second one is being applied
  await Promise.all([second, databases.apply(id)])
  expect(counts).toEqual([1, 1, 1])
})

/** Makes a method of the back end fail. @returns a function that repairs it */
function breakBackend(method: 'applySettings' | 'remove'): () => void {
  const original = backend[method]
  backend[method] = async () => {
    throw new Error('the disk is full')
  }
  return () => void Object.assign(backend, { [method]: original })
}

describe('changes that the back end fails to apply', () => {
  beforeEach(() => {
    vi.useFakeTimers()
    vi.spyOn(console, 'error').mockReturnValue()
  })
  afterEach(() => databases.stop())
  const pending = () => databases.pendingChanges.map(({ failures, error }) => [failures, error])

  test('reports settings that were not applied, and retries them with an increasing backoff', async () => {
    const row = await create('a')
    const repair = breakBackend('applySettings')
    const key = newKeyPair()
    await expect(databases.change({ ...row, key })).rejects.toMatchObject({
      status: 500,
      code: 'not_applied_yet',
      // the reason is in the log only
      message: expect.not.stringContaining('the disk is full'),
    })
    expect(registry.databases.get(row.id)?.key).toEqual(key)
    expect(pending()).toEqual([[1, 'the disk is full']])
    await vi.advanceTimersByTimeAsync(999)
    expect(pending()).toEqual([[1, 'the disk is full']])
    await vi.advanceTimersByTimeAsync(1 + 2_000 + 4_000)
    expect(pending()).toEqual([[4, 'the disk is full']])
    repair()
    await vi.advanceTimersByTimeAsync(7_999)
    expect(backend.keys.get(row.id)).not.toContain(key.publicPem)
    await vi.advanceTimersByTimeAsync(1)
    expect([pending(), backend.keys.get(row.id)?.[0]]).toEqual([[], key.publicPem])
    // once when it failed, once when it succeeded
    expect(vi.mocked(console.error).mock.calls.map(([line]) => line)).toEqual([
      expect.stringContaining('will be retried: the disk is full'),
      expect.stringContaining('has applied the change'),
    ])
  })

  test('a rotation closes streams once it has been applied, regardless of which request applies it', async () => {
    const revokedIds: DatabaseId[] = []
    Object.assign(backend, { revokeAccess: async (id: DatabaseId) => void revokedIds.push(id) })
    const row = await create('a')
    const repair = breakBackend('applySettings')
    await expect(databases.apply(row.id, { revoked: 'all' })).rejects.toThrow('not applied it yet')
    repair()
    await databases.change(row)
    expect([pending(), revokedIds]).toEqual([[], [row.id]])
    await vi.advanceTimersByTimeAsync(120_000)
    expect(revokedIds).toEqual([row.id])
  })

  test.each([
    ['succeeds', 1],
    ['fails', 2],
  ])('a failed rotation closes streams later if the change that is waiting %s', async (_, failures) => {
    const revokedIds: DatabaseId[] = []
    Object.assign(backend, { revokeAccess: async (id: DatabaseId) => void revokedIds.push(id) })
    const row = await create('a')
    const applySettings = vi.spyOn(backend, 'applySettings')
    for (let count = 0; count < failures; count += 1)
      applySettings.mockRejectedValueOnce(new Error('the disk is full'))
    const changes = [databases.apply(row.id, { revoked: 'all' }), databases.change(row)]
    const outcomes = await Promise.allSettled(changes)
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(failures)
    await vi.advanceTimersByTimeAsync(120_000)
    expect([pending(), revokedIds]).toEqual([[], [row.id]])
  })

  test('finishes a failed removal later; until then, the database is not found', async () => {
    const row = await create('a')
    const repair = breakBackend('remove')
    await expect(databases.remove(row)).rejects.toMatchObject({ status: 500 })
    expect([states(), registry.findDatabase(operator.organization.id, 'a')]).toEqual([
      ['deleting'],
      undefined,
    ])
    repair()
    await vi.advanceTimersByTimeAsync(1_000)
    expect([states(), [...backend.present], pending()]).toEqual([[], [], []])
  })

  test('a failing database blocks neither other databases of its group nor the start of the server', async () => {
    const rows = [await create('a'), await create('b'), await create('c')]
    const { applySettings: original } = backend
    backend.keys.clear()
    backend.applySettings = async (id, settings) => {
      if (id === rows[0]?.id) throw new Error('the disk is full')
      return await original(id, settings)
    }
    await expect(databases.applyAll(rows)).rejects.toThrow('not applied it yet')
    expect([...backend.keys.keys()].sort()).toEqual([rows[1]?.id, rows[2]?.id].sort())
    await databases.reconcile()
    expect(states()).toEqual(['ready', 'ready', 'ready'])
    expect(pending()).toEqual([[2, 'the disk is full']])
  })

  test('a missing database is a failure while the server runs, and is marked as lost at the next start', async () => {
    const row = await create('a')
    backend.present.delete(row.id)
    await expect(databases.apply(row.id)).rejects.toThrow('not applied it yet')
    expect([states(), pending()]).toEqual([['ready'], [[1, 'the back end does not have the database']]])
    await databases.reconcile()
    expect([states(), pending()]).toEqual([['lost'], []])
    backend.present.add(row.id)
    await databases.apply(row.id)
    expect(states()).toEqual(['ready'])
  })

  test('removes a schema database only after its children', async () => {
    const [parent, child] = [await create('parent'), await create('child')]
    const rows = [
      { ...parent, isSchema: true, state: 'deleting' as const },
      { ...child, schema: parent.id, state: 'deleting' as const },
    ]
    registry.transaction(() => rows.forEach((row) => registry.databases.put(row)))
    const repair = breakBackend('remove')
    await expect(databases.finishRemovals(rows)).rejects.toThrow('not applied it yet')
    expect(pending()).toHaveLength(2)
    repair()
    await vi.advanceTimersByTimeAsync(1_000)
    expect([states(), [...backend.present], pending()]).toEqual([[], [], []])
  })

  test('retries nothing after `stop`', async () => {
    const row = await create('a')
    breakBackend('applySettings')
    await expect(databases.apply(row.id)).rejects.toThrow()
    databases.stop()
    await vi.advanceTimersByTimeAsync(120_000)
    expect(pending()).toEqual([[1, 'the disk is full']])
  })
})
