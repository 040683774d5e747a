import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { type TestHooks, type UseDatabaseOptions, useDatabase } from '@batonsql/local-server/testing'
import { expect, onTestFinished, test } from 'vitest'

/** A test runner whose hooks are called manually. */
class ManualRunner {
  readonly #works = { beforeAll: none, beforeEach: none, afterEach: none, afterAll: none }
  readonly hooks: TestHooks = {
    beforeAll: (work) => (this.#works.beforeAll = work),
    beforeEach: (work) => (this.#works.beforeEach = work),
    afterEach: (work) => (this.#works.afterEach = work),
    afterAll: (work) => (this.#works.afterAll = work),
  }

  async begin(): Promise<void> {
    onTestFinished(() => this.#works.afterAll())
    await this.#works.beforeAll()
  }

  beginTest = (): Promise<void> => this.#works.beforeEach()
  endTest = (): Promise<void> => this.#works.afterEach()
  end = (): Promise<void> => this.#works.afterAll()
}

const none = async (): Promise<void> => {}

test('there is no database outside of tests', async () => {
  const runner = new ManualRunner()
  const database = useDatabase({ hooks: runner.hooks })
  const outside = /no database here; read `config` and `url` inside a test/
  expect(() => database.url).toThrow(outside)
  await runner.begin()
  expect(() => database.config).toThrow(outside)
  await runner.beginTest()
  expect(database.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/test-1\/$/)
  await runner.endTest()
  await runner.end()
  expect(() => database.url).toThrow(outside)
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
    const failed = 'useDatabase: the template "addTenants" failed: no such table: tenant'
    for (let round = 0; round < 2; round++) {
      await expect(runner.beginTest()).rejects.toThrow(failed)
      expect(() => database.config).toThrow(failed)
      await runner.endTest()
    }
    expect(calls).toBe(1)
  },
)

test('a template can be an SQLite file; if it is missing, each test fails', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-template-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
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

  const other = new ManualRunner()
  useDatabase({ template: join(folder, 'none.db'), hooks: other.hooks })
  await other.begin()
  await expect(other.beginTest()).rejects.toThrow('none.db cannot be read')
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

test('the server stops when its last user has released it', async () => {
  const runners = [new ManualRunner(), new ManualRunner()] as const
  const [first, second] = runners.map(({ hooks }) => useDatabase({ hooks })) as [
    ReturnType<typeof useDatabase>,
    ReturnType<typeof useDatabase>,
  ]
  for (const runner of runners) {
    await runner.begin()
    await runner.beginTest()
  }
  expect(new URL(first.url).port).toBe(new URL(second.url).port)
  const { url } = second
  await runners[0].end()
  expect((await fetch(new URL('/health', url))).status).toBe(200)
  await runners[1].end()
  await expect(fetch(new URL('/health', url))).rejects.toThrow('fetch failed')
})

test.each([
  [{ tempalte: none }, /unknown option "tempalte"/],
  [{ template: 5 }, /template must be a function, or the path of an SQLite file/],
  [{ scope: 'suite' }, /scope must be "test" or "file", not "suite"/],
])('options %o are rejected', (options, message) => {
  expect(() => useDatabase(options as UseDatabaseOptions)).toThrow(message)
})
