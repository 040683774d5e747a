import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { type TestHooks, type UseDatabaseOptions, useDatabase } from '@batonsql/local-server/testing'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { ManualRunner } from './manual-runner.ts'

const noop = async (): Promise<void> => {}

test('there is no database outside of tests', async () => {
  const runner = new ManualRunner()
  const database = useDatabase({ hooks: runner.hooks })
  const message =
    /no database here; call useDatabase\(\) at the top level .* read `config` and `url` inside a test/
  expect(() => database.url).toThrow(message)
  await runner.begin()
  expect(() => database.config).toThrow(message)
  await runner.beginTest()
  expect(database.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/test-1\/$/)
  await runner.endTest()
  await runner.end()
  expect(() => database.url).toThrow(message)
})

test('inside a test, the error says where to call it', () => {
  const hooks: TestHooks = { beforeAll, beforeEach, afterEach, afterAll }
  const atTopLevel = /call useDatabase\(\) at the top level of the test file, or in a describe/
  // vitest ignores the hooks
  expect(() => useDatabase({ hooks }).config).toThrow(atTopLevel)
  const rejecting: TestHooks = {
    ...hooks,
    beforeAll: () => {
      throw new Error('Hooks cannot be defined inside tests.')
    },
  }
  expect(() => useDatabase({ hooks: rejecting })).toThrow(atTopLevel)
})

test.each(['test', 'file'] as const)(
  'if the template fails, each test fails with the name of the template: scope %s',
  async (scope) => {
    let calls = 0
    const addTenants = async (): Promise<void> => {
      calls += 1
      await Promise.reject(new Error('no such table: tenant'))
    }
    const runner = new ManualRunner()
    const database = useDatabase({ template: addTenants, scope, hooks: runner.hooks })
    await runner.begin()
    const message = 'useDatabase: the template "addTenants" failed: no such table: tenant'
    for (let round = 0; round < 2; round++) {
      await expect(runner.beginTest()).rejects.toThrow(message)
      expect(() => database.config).toThrow(message)
      await runner.endTest()
    }
    expect(calls).toBe(1)
  },
)

test('a template can be an SQLite file; if it is missing, each test fails', async () => {
  const folder = createTemporaryDirectory()
  const file = join(folder, 'seed.db')
  const server = await startLocalServer()
  const seed = createClient({ url: server.url })
  await seed.execute('create table note (text)')
  await seed.close()
  await server.exportDatabase('default', file)
  await server.close()

  const runner = new ManualRunner()
  const database = useDatabase({ template: file, hooks: runner.hooks })
  await runner.begin()
  await runner.beginTest()
  const db = createClient(database.config)
  expect((await db.execute('select name from sqlite_schema')).rows).toEqual([{ name: 'note' }])
  await db.close()
  expect(readdirSync(folder)).toEqual(['seed.db'])

  const otherRunner = new ManualRunner()
  useDatabase({ template: join(folder, 'none.db'), hooks: otherRunner.hooks })
  await otherRunner.begin()
  await expect(otherRunner.beginTest()).rejects.toThrow('none.db cannot be read')
})

test('rejects a second concurrent test, while the first keeps its database', async () => {
  const runner = new ManualRunner()
  const database = useDatabase({ hooks: runner.hooks })
  await runner.begin()
  await runner.beginTest()
  const { url } = database
  await expect(runner.beginTest()).rejects.toThrow(/two tests run at the same time/)
  expect(database.url).toBe(url)
  await runner.endTest()
  await runner.endTest()
  await runner.beginTest()
  expect(database.url).not.toBe(url)
})

test('a hook that runs at the same time does not get the database of the previous test', async () => {
  const runner = new ManualRunner()
  const database = useDatabase({ hooks: runner.hooks })
  await runner.begin()
  await runner.beginTest()
  await runner.endTest()
  const beginning = runner.beginTest()
  expect(() => database.url).toThrow('no database here')
  await beginning
  await runner.endTest()
})

test('the server stops when its last user has released it', async () => {
  const runners = [new ManualRunner(), new ManualRunner()] as const
  const [firstDatabase, secondDatabase] = runners.map(({ hooks }) => useDatabase({ hooks })) as [
    ReturnType<typeof useDatabase>,
    ReturnType<typeof useDatabase>,
  ]
  for (const runner of runners) {
    await runner.begin()
    await runner.beginTest()
  }
  expect(new URL(firstDatabase.url).port).toBe(new URL(secondDatabase.url).port)
  const { url } = secondDatabase
  await runners[0].end()
  expect((await fetch(new URL('/health', url))).status).toBe(200)
  await runners[1].end()
  await expect(fetch(new URL('/health', url))).rejects.toThrow('fetch failed')
})

test.each([
  [{ tempalte: noop }, /unknown option tempalte/],
  [{ template: 5 }, /template must be a function, { key, create } or the path of a file, not 5/],
  [{ template: { key: '', create: noop } }, /template must be a function, { key, create }/],
  [
    { migrations: './drizzle', template: 'seed.db' },
    /migrations cannot be combined with a template that is a file/,
  ],
  [{ scope: 'suite' }, /scope must be 'test' or 'file', not 'suite'/],
])('options %o are rejected', (options, message) => {
  expect(() => useDatabase(options as UseDatabaseOptions)).toThrow(message)
})
