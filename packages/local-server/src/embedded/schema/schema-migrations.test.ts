import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { DatabaseId } from '@batonsql/server-common/backend'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../../test/support/temporary-directory.ts'
import { type MigrationHost, SchemaMigrations } from './schema-migrations.ts'
import { type Job, SchemaStore } from './schema-store.ts'

const [PARENT, KID] = ['parent' as DatabaseId, 'kid' as DatabaseId]
const [OTHER_PARENT, OTHER_KID] = ['other' as DatabaseId, 'other-kid' as DatabaseId]
const FAMILIES = [
  [PARENT, KID],
  [OTHER_PARENT, OTHER_KID],
] as const
const STEPS = ['dry run kid', 'run kid', 'run parent']

/** Databases whose migration steps, such as `dry run kid`, end when the test ends them. */
class ManualDatabases implements MigrationHost {
  readonly blocked = new Set<DatabaseId>()
  /** Names of the steps that have begun. */
  readonly begunSteps: string[] = []
  readonly #steps = new Map<
    string,
    { begun: PromiseWithResolvers<void>; outcome: PromiseWithResolvers<string | null> }
  >()

  run(id: DatabaseId, _job: Job, isDryRun: boolean): Promise<string | null> {
    const name = `${isDryRun ? 'dry run' : 'run'} ${id}`
    this.begunSteps.push(name)
    const step = this.#step(name)
    step.begun.resolve()
    return step.outcome.promise
  }

  block(id: DatabaseId, isBlocked: boolean): void {
    if (isBlocked) this.blocked.add(id)
    else this.blocked.delete(id)
  }

  async waitFor(name: string): Promise<void> {
    await this.#step(name).begun.promise
  }

  end(name: string, error: string | null = null): void {
    this.#step(name).outcome.resolve(error)
  }

  #step(name: string) {
    const step = this.#steps.get(name) ?? {
      begun: Promise.withResolvers<void>(),
      outcome: Promise.withResolvers<string | null>(),
    }
    this.#steps.set(name, step)
    return step
  }
}

async function createFamilies() {
  const directory = createTemporaryDirectory()
  const store = new SchemaStore(directory)
  for (const [parent, child] of FAMILIES) {
    await store.addSchema(parent)
    await store.addChild(child, parent)
  }
  const databases = new ManualDatabases()
  return { directory, store, databases, migrations: new SchemaMigrations(store, databases) }
}

test('writes to children are blocked from the dry run until the migration has been applied everywhere', async () => {
  const { databases, migrations } = await createFamilies()
  const migration = migrations.migrate(PARENT, '')
  for (const step of STEPS) {
    await databases.waitFor(step)
    expect([...databases.blocked], step).toEqual([KID])
    databases.end(step)
  }
  expect([await migration, databases.blocked.size]).toEqual([null, 0])
})

test.each(STEPS)(
  'a migration ends with an error, and does not continue, if its state cannot be saved after: %s',
  async (lastStep) => {
    const { directory, databases, migrations } = await createFamilies()
    const migration = migrations.migrate(PARENT, '')
    migration.catch(() => {}) // it may be rejected before the test waits for it
    const previousSteps = STEPS.slice(0, STEPS.indexOf(lastStep))
    for (const step of previousSteps) databases.end(step)
    await databases.waitFor(lastStep)
    mkdirSync(join(directory, 'shared-schemas.json.new'))
    for (const step of STEPS) databases.end(step)
    await expect(migration).rejects.toThrow('EISDIR')
    expect(databases.begunSteps).toEqual([...previousSteps, lastStep])
  },
)

test.each(STEPS)(
  'a migration whose state could not be saved is finished before the next one: %s',
  async (lastStep) => {
    const { directory, store, databases, migrations } = await createFamilies()
    const obstacle = join(directory, 'shared-schemas.json.new')
    const migration = migrations.migrate(PARENT, 'a')
    migration.catch(() => {}) // it may be rejected before the test waits for it
    for (const step of STEPS.slice(0, STEPS.indexOf(lastStep))) databases.end(step)
    await databases.waitFor(lastStep)
    mkdirSync(obstacle)
    for (const step of STEPS) databases.end(step)
    await expect(migration).rejects.toThrow('EISDIR')
    rmSync(obstacle, { recursive: true })
    databases.begunSteps.length = 0
    expect(await migrations.migrate(PARENT, 'b')).toBeNull()
    expect(store.getJobs(PARENT)).toMatchObject([
      { program: 'b', status: 'RunSuccess' },
      { program: 'a', status: 'RunSuccess' },
    ])
    // the children could be written to in the meantime, so a dry run is repeated
    const remainingSteps = { 'dry run kid': STEPS, 'run kid': ['run parent'] }[lastStep] ?? []
    expect(databases.begunSteps).toEqual([...remainingSteps, ...STEPS])
  },
)

test('if a migration fails in a child after its dry run, the job has the error of the child', async () => {
  const { store, databases, migrations } = await createFamilies()
  databases.end('dry run kid')
  databases.end('run kid', 'database or disk is full')
  const error = 'task 1 for namespace `kid` failed with error: database or disk is full'
  expect(await migrations.migrate(PARENT, '')).toBe(error)
  expect(store.getJobs(PARENT)).toMatchObject([
    { status: 'RunFailure', error, tasks: [{ status: 'RunFailure', error: 'database or disk is full' }] },
  ])
  expect(databases.begunSteps).toEqual(['dry run kid', 'run kid'])
})

test.each(STEPS)(
  'a migration that is interrupted by a shutdown is finished at the next start: %s',
  async (lastStep) => {
    const { directory, databases, migrations } = await createFamilies()
    const migration = migrations.migrate(PARENT, '')
    for (const step of STEPS.slice(0, STEPS.indexOf(lastStep))) databases.end(step)
    await databases.waitFor(lastStep)
    migrations.close()
    databases.end(lastStep, 'the database was closed')
    expect(await migration).toContain('resumed at the next start')
    const reopenedStore = new SchemaStore(directory)
    await reopenedStore.load()
    const reopenedDatabases = new ManualDatabases()
    for (const step of STEPS) reopenedDatabases.end(step)
    new SchemaMigrations(reopenedStore, reopenedDatabases).resume()
    await expect
      .poll(() => reopenedStore.getJobs(PARENT))
      .toMatchObject([{ status: 'RunSuccess', error: null }])
    expect(reopenedDatabases.begunSteps).toEqual(STEPS.slice(STEPS.indexOf(lastStep)))
  },
)

test('after a restart, the children of all interrupted migrations are blocked until their migrations end', async () => {
  const { directory, store } = await createFamilies()
  await store.addJob(PARENT, '')
  await store.addJob(OTHER_PARENT, '')
  const reopenedStore = new SchemaStore(directory)
  await reopenedStore.load()
  const databases = new ManualDatabases()
  new SchemaMigrations(reopenedStore, databases).resume()
  for (const [parent, child] of FAMILIES) {
    await databases.waitFor(`dry run ${child}`)
    expect(databases.blocked).toContain(child)
    if (child === KID) expect(databases.blocked).toContain(OTHER_KID)
    for (const step of [`dry run ${child}`, `run ${child}`, `run ${parent}`]) databases.end(step)
  }
  await expect.poll(() => databases.blocked.size).toBe(0)
  expect(reopenedStore.unfinished).toEqual([])
})
