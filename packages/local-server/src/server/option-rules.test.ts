import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { createHandler } from '../index.ts'
import { startSqld } from '../sqld.ts'
import { useDatabase } from '../testing/use-database.ts'
import { startLocalServer } from './server.ts'

const NOT_LISTS: readonly unknown[] = [{ databases: ['app'] }, new Set(['app']), 'app', [5], null]

test.each(NOT_LISTS.map((value) => ({ value })))('a list of names is not $value', async ({ value }) => {
  const list = value as string[]
  await using server = await startLocalServer({ auth: true })
  await expect(server.createToken('default', { readAttach: list })).rejects.toThrow(
    'createToken: readAttach must be an array of strings, not ',
  )
  await expect(startLocalServer({ allowOrigins: list })).rejects.toThrow(
    'startLocalServer: allowOrigins must be an array of strings, not ',
  )
  await expect(startLocalServer({ backend: 'sqld', replicas: list })).rejects.toThrow(
    'startLocalServer: replicas must be an array of strings, not ',
  )
  expect(() => createHandler({ allowOrigins: list })).toThrow(
    'createHandler: allowOrigins must be an array of strings, not ',
  )
  await expect(startSqld({ serverArguments: list })).rejects.toThrow(
    'startSqld: serverArguments must be an array of strings, not ',
  )
})

test.each([new Map([['app', {}]]), ['app'], null])(
  'databases and domains are plain objects, not %o',
  async (value) => {
    for (const name of ['databases', 'domains', 'sqld'])
      await expect(startLocalServer({ [name]: value })).rejects.toThrow(
        `startLocalServer: ${name} must be a plain object, not `,
      )
    expect(() => createHandler({ domains: value as never })).toThrow('domains must be a plain object, not ')
  },
)

test('the name of a database and a location are checked before the data directory is created', async () => {
  const dataDirectory = join(createTemporaryDirectory(), 'data')
  await expect(startLocalServer({ dataDirectory, databases: { a: {}, BAD: {} } })).rejects.toThrow(
    '"BAD" is not a valid database name',
  )
  await expect(startLocalServer({ dataDirectory, backend: 'sqld', replicas: ['far'] })).rejects.toThrow(
    'startLocalServer: unknown location far',
  )
  expect(existsSync(dataDirectory)).toBe(false)
})

test('conditions of replicas are for a location that exists', async () => {
  await expect(startLocalServer({ backend: 'sqld', replicaLagMs: { far: 5 } })).rejects.toThrow(
    'startLocalServer: unknown location far',
  )
  await using server = await startLocalServer()
  await expect(server.setReplica('far', { isDown: true })).rejects.toThrow(
    'setReplica: unknown location far; the locations are local, ams',
  )
})

test('a path is not empty: it would be the working directory', async () => {
  await using server = await startLocalServer()
  await expect(startSqld({ dataDirectory: '' })).rejects.toThrow(
    "startSqld: dataDirectory must be a string that is not empty, not ''",
  )
  await expect(server.createDatabase('app', { fromFile: '' })).rejects.toThrow(
    "createDatabase: fromFile must be a string that is not empty, not ''",
  )
  await expect(server.exportDatabase('default', '')).rejects.toThrow(
    "exportDatabase: the file must be a string that is not empty, not ''",
  )
  expect(() => useDatabase({ templateDirectory: '' })).toThrow(
    "useDatabase: templateDirectory must be a string that is not empty, not ''",
  )
  expect(() => useDatabase({ migrations: '' })).toThrow(
    "useDatabase: migrations must be the path of a folder or a migration provider, not ''",
  )
  expect(() => useDatabase({ template: '' })).toThrow(
    "useDatabase: template must be a function, { key, create } or the path of a file, not ''",
  )
})

test.each([Infinity, 2 ** 53, -1, 0.5, Number.NaN])(
  'a number that is stored or sent is not %d',
  async (value) => {
    await using server = await startLocalServer()
    await expect(startSqld({ maxOpenDatabases: value })).rejects.toThrow(
      'startSqld: maxOpenDatabases must be an integer from 1 to 2^53 - 1, not ',
    )
    await expect(startLocalServer({ platform: { readyDelayMs: value } })).rejects.toThrow(
      'platform: readyDelayMs must be an integer from 0 to 2^31 - 1, not ',
    )
    expect(() => server.fail('default', 'busy', { on: value })).toThrow(
      'fail: on must be an integer from 1 to 2^53 - 1, not ',
    )
  },
)

test('a name is a string: null and undefined are not taken for the words', async () => {
  await using server = await startLocalServer({ platform: {} })
  await expect(server.createSnapshot('default', null as never)).rejects.toThrow(
    'createSnapshot: the name must be string, not null',
  )
  await expect(server.platform?.createUser({} as never)).rejects.toThrow(
    'createUser: the username must be string, not undefined',
  )
  for (const call of ['restoreSnapshot', 'deleteSnapshot'] as const)
    await expect(server[call]('default', undefined as never)).rejects.toThrow(
      `${call}: the name must be string, not undefined`,
    )
  expect(server.listSnapshots('default')).toEqual([])
})

test('a setting that is undefined stays as it is', async () => {
  await using server = await startLocalServer()
  const address = await server.createDatabase('app', { blockReason: undefined } as never)
  const db = createClient(address)
  onTestFinished(() => db.close())
  await server.updateDatabase('app', { blockWrites: true, blockReason: 'moving' })
  await server.updateDatabase('app', { blockWrites: undefined, blockReason: undefined } as never)
  await expect(db.execute('create table t (a)')).rejects.toThrow('moving')
})

test('the name of a user is that of an organization, and a part of host names', async () => {
  await using server = await startLocalServer({ platform: {} })
  for (const username of ['', '-a', 'a-', 'A', 'a'.repeat(40)])
    await expect(server.platform?.createUser({ username })).rejects.toThrow('createUser: a username must be')
})
