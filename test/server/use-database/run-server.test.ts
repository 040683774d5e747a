import childProcess, { type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { useDatabase } from '@batonsql/local-server/testing'
import { setup, teardown } from '@batonsql/local-server/vitest'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { ManualRunner } from './manual-runner.ts'

test('all users share the server of the run, which stops with it', async () => {
  await setup()
  onTestFinished(teardown)
  const address = process.env['BATON_TEST_SERVER'] ?? ''
  await setup() // of another project
  expect(process.env['BATON_TEST_SERVER']).toBe(address)

  const runner = new ManualRunner()
  const template = async (config: { readonly url: string }): Promise<void> => {
    const db = createClient(config)
    await db.execute('create table note (text)')
    await db.close()
  }
  const database = useDatabase({ template, hooks: runner.hooks })
  await runner.begin()
  const urls = new Set<string>()
  for (let round = 0; round < 2; round++) {
    await runner.beginTest()
    const db = createClient(database.config)
    await db.execute("insert into note values ('one')")
    expect((await db.execute('select * from note')).rows).toHaveLength(1)
    const failure = await database.fail('lost-request', { sql: /INSERT/i })
    await expect(db.execute("insert into note values ('two')")).rejects.toMatchObject({ outcome: 'unknown' })
    expect(await failure.count()).toBe(1)
    await failure.remove()
    await db.close()
    urls.add(database.url)
    await runner.endTest()
  }
  expect(urls.size).toBe(2)
  await runner.end()
  // other processes may still use it
  const [url = ''] = urls
  expect((await fetch(new URL('/health', url))).status).toBe(200)

  // only who knows the address may use it
  expect((await fetch(new URL('/', address), { method: 'POST', body: '{}' })).status).toBe(404)
  const body = JSON.stringify({ operation: 'close', values: [] })
  const reply = await fetch(address, { method: 'POST', body })
  expect(await reply.json()).toEqual({ error: 'unknown operation close' })

  await teardown()
  await expect(fetch(url)).rejects.toThrow('fetch failed')
  expect(process.env['BATON_TEST_SERVER']).toBe(undefined)
  await teardown()
})

test('an error of the server makes the test fail', async () => {
  await setup()
  onTestFinished(teardown)
  const runner = new ManualRunner()
  useDatabase({ template: 'none.db', hooks: runner.hooks })
  await runner.begin()
  await expect(runner.beginTest()).rejects.toThrow('none.db cannot be read')
})

test('a server that has gone makes each test fail with the name of the variable', async () => {
  vi.stubEnv('BATON_TEST_SERVER', 'http://127.0.0.1:1/')
  const runner = new ManualRunner()
  useDatabase({ hooks: runner.hooks })
  await runner.begin()
  await expect(runner.beginTest()).rejects.toThrow(
    'the test server of this run (BATON_TEST_SERVER) does not respond',
  )
})

test('the path of a template is relative to the working directory of the tests', async () => {
  const folder = createTemporaryDirectory()
  const seed = await startLocalServer()
  await seed.exportDatabase('default', join(folder, 'seed.db'))
  await seed.close()
  await setup()
  onTestFinished(teardown)
  // a worker cannot call process.chdir()
  vi.spyOn(process, 'cwd').mockReturnValue(folder)
  const runner = new ManualRunner()
  useDatabase({ template: 'seed.db', hooks: runner.hooks })
  await runner.begin()
  await runner.beginTest()
})

test('calls of setup at the same time start one server', async () => {
  const fork = vi.spyOn(childProcess, 'fork')
  syncBuiltinESMExports()
  onTestFinished(() => {
    fork.mockRestore()
    syncBuiltinESMExports()
  })
  // a runner may load the module once for each project
  vi.resetModules()
  const other = await import('@batonsql/local-server/vitest')
  expect(other.setup).not.toBe(setup)
  const starts = [setup(), setup(), other.setup()]
  // waits for the start
  await teardown()
  await Promise.all(starts)
  expect(fork).toHaveBeenCalledTimes(1)
  expect(process.env['BATON_TEST_SERVER']).toBe(undefined)
})

test('teardown ends if the server was killed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-killed-'))
  vi.stubEnv('TMPDIR', folder)
  const fork = vi.spyOn(childProcess, 'fork')
  syncBuiltinESMExports()
  onTestFinished(() => {
    fork.mockRestore()
    syncBuiltinESMExports()
    rmSync(folder, { recursive: true })
  })
  await setup()
  onTestFinished(teardown)
  const server = fork.mock.results[0]?.value as ChildProcess
  server.kill('SIGKILL')
  await once(server, 'exit')
  await teardown()
})
