import { createClient } from '@batonsql/core'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { createPlatformClient, databaseUrl } from '@batonsql/platform'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Program, type ProgramResult, startExample, waitForExit } from '../docs/examples/program.ts'
import { IS_RELEASE } from '../support/random.ts'

// Tests the claims in the README of examples/migrate-tenants.

const target = inject('target') === 'sqld' ? 'sqld' : 'embedded'
/** A realistic number only before a release. */
const TENANT_COUNT = IS_RELEASE ? 100 : 20
const TAGS = ['0000_guest', '0001_visit']

let server: LocalServer
let platform: ReturnType<typeof createPlatformClient>
const environment: Record<string, string> = {}
beforeAll(async () => {
  server = await startLocalServer({ backend: target, platform: {} })
  const { url, token, organization } = server.platform as NonNullable<LocalServer['platform']>
  platform = createPlatformClient({ url, token, organization })
  Object.assign(environment, { BATON_API_URL: url, BATON_API_TOKEN: token, BATON_ORGANIZATION: organization })
}, 180_000)
afterAll(() => server.close())

/** Creates a group of empty databases. @returns its name */
async function createTenants(group: string, count: number): Promise<string> {
  await platform.groups.ensure({ name: group, location: 'local' })
  const names = Array.from({ length: count }, (_, index) => `${group}-${index + 1}`)
  for (const name of names) await platform.databases.create({ name, group })
  return group
}

/** Queries ten databases of a group. @returns the results, and how many databases returned each */
async function countResults(group: string, sql: string): Promise<Record<string, number>> {
  const authToken = platform.databaseToken({ group, expiration: '15m' })
  const counts: Record<string, number> = {}
  const databases = await platform.databases.list({ group }).toArray({ limit: TENANT_COUNT })
  const step = Math.ceil(databases.length / 10)
  for (const { hostname } of databases.filter((_, index) => index % step === 0)) {
    await using db = createClient({ url: databaseUrl(hostname), authToken })
    const { rows } = await db.execute(sql, [], { rowMode: 'array' })
    const result = rows.flat().join()
    counts[result] = (counts[result] ?? 0) + 1
  }
  return counts
}
const SELECT_TABLES = "select name from sqlite_schema where name in ('guest', 'visit') order by name"
const COUNT_APPLIED = 'select count(*) from __drizzle_migrations'

const startMigration = (group: string, ...args: string[]): Program =>
  startExample('migrate-tenants', 'migrate-tenants.ts', ['--group', group, ...args], environment)
const countOccurrences = ({ output }: ProgramResult, text: string): number => output.split(text).length - 1

test(`${TENANT_COUNT} tenants: lists pending migrations, resumes after being killed, and then has nothing to do`, async () => {
  const group = await createTenants('many', TENANT_COUNT)
  const dryRun = await waitForExit(startMigration(group, '--dry-run'))
  expect(dryRun.code).toBe(0)
  expect(countOccurrences(dryRun, `would apply ${TAGS.join(', ')}`)).toBe(TENANT_COUNT)
  expect(dryRun.output).toContain(`${TENANT_COUNT} would be migrated, 0 up to date, 0 failed\n`)
  expect(await countResults(group, 'select count(*) from sqlite_schema')).toEqual({ 0: 10 })

  const killed = startMigration(group, '--concurrency', '2')
  killed.stderr.once('data', () => killed.kill('SIGKILL'))
  const { errors } = await waitForExit(killed)
  expect(errors).toContain(`10 of ${TENANT_COUNT} databases`)

  const resumed = await waitForExit(startMigration(group))
  expect(resumed.code).toBe(0)
  const remaining = countOccurrences(resumed, `applied ${TAGS.join(', ')}`)
  expect(remaining).toBeGreaterThan(0)
  expect(remaining).toBeLessThanOrEqual(TENANT_COUNT - 10)
  expect(resumed.output).toContain(
    `${remaining} migrated, ${TENANT_COUNT - remaining} up to date, 0 failed\n`,
  )
  expect(resumed.errors).toContain(`${TENANT_COUNT} of ${TENANT_COUNT} databases`)
  expect(await countResults(group, COUNT_APPLIED)).toEqual({ 2: 10 })

  const repeated = await waitForExit(startMigration(group))
  expect([repeated.code, repeated.output]).toEqual([0, `0 migrated, ${TENANT_COUNT} up to date, 0 failed\n`])
})

test('applies each migration once if it runs on two machines at the same time', async () => {
  const group = await createTenants('twice', 10)
  const runs = await Promise.all([waitForExit(startMigration(group)), waitForExit(startMigration(group))])
  expect(runs.map(({ code }) => code)).toEqual([0, 0])
  expect(countOccurrences(runs[0], 'applied') + countOccurrences(runs[1], 'applied')).toBe(10)
  expect(await countResults(group, COUNT_APPLIED)).toEqual({ 2: 10 })
})

test('lists tenants that fail, and continues with the others', async () => {
  const group = await createTenants('odd', 4)
  const { hostname } = await platform.databases.get('odd-2')
  const authToken = platform.databaseToken({ group, expiration: '15m' })
  await using db = createClient({ url: databaseUrl(hostname), authToken })
  await db.execute('create table visit (by_hand)')
  await platform.databases.updateConfiguration('odd-3', { blockWrites: true })
  const run = await waitForExit(startMigration(group))
  expect(run.code).toBe(1)
  expect(run.output).toContain('2 migrated, 0 up to date, 2 failed\n')
  const failed = run.errors.split('\n').filter((line) => line.startsWith('FAILED'))
  expect(failed.sort()).toEqual([
    expect.stringMatching(/^FAILED odd-2: .*0001_visit.*already exists/),
    expect.stringMatching(/^FAILED odd-3: .*block/),
  ])
  // the tenant whose second migration failed does not have the first one either
  expect(await countResults(group, SELECT_TABLES)).toEqual({ 'guest,visit': 2, visit: 1, '': 1 })
})

test('a group without databases is rejected', async () => {
  const run = await waitForExit(startMigration('misspelt'))
  expect([run.code, run.output]).toEqual([1, ''])
  expect(run.errors).toContain('the group misspelt has no databases')
})
