import fs, { readdirSync, rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { DEFAULT_SETTINGS, newDatabaseId, type SchemaRole } from '@batonsql/server-common/backend'
import { FULL_PERMISSIONS } from '@batonsql/server-common/hrana'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { loadEngineModule } from '../engine-module.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import type { FromWorker, PackedRequest } from '../protocol/worker-messages.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { OpenDatabase } from './open-database.ts'

const execute = (sql: string) =>
  ({ type: 'execute', statement: { sql, sqlId: null, args: [], namedArgs: [] } }) as const

async function open(
  path: string,
  send: (message: FromWorker) => void = () => {},
  role: SchemaRole = 'plain',
): Promise<OpenDatabase> {
  const instance = new ErasableInstance(await loadEngineModule())
  const target = { id: newDatabaseId(), path, settings: DEFAULT_SETTINGS, role }
  return new OpenDatabase(
    { ...target, dialect: null, isDurable: false, lastIndex: null },
    {
      instance: () => instance,
      state: new SharedCallState(),
      send,
      fail: (error) => {
        throw error
      },
    },
  )
}

test.each(['close', 'drop'] as const)('does not open its files again after %s()', async (method) => {
  const path = join(createTemporaryDirectory(), 'data.db')
  const database = await open(path)
  // a connection with a setting is not reused, so another one is opened in advance
  const requests = [execute('PRAGMA foreign_keys = off'), { type: 'close' }] as const
  const call = { call: 1, stream: 1, permissions: FULL_PERMISSIONS }
  await database.run({ type: 'pipeline', requests, version: 3, ...call })
  database[method]()
  rmSync(path)
  rmSync(`${path}.wal`, { force: true })
  await nextTurn()
  expect(readdirSync(dirname(path))).toEqual([])
})

test('the connection of a dry run is closed with the database, which removes the WAL', async () => {
  const path = join(createTemporaryDirectory(), 'data.db')
  const outcomes: FromWorker[] = []
  const database = await open(path, (message) => void outcomes.push(message), 'schema')
  let call = 0
  const run = async (stream: number, sql: string): Promise<void> => {
    call += 1
    const message = {
      call,
      stream,
      permissions: FULL_PERMISSIONS,
      version: 3,
      requests: [execute(sql)],
    } as const
    await database.run({ type: 'pipeline', ...message })
  }
  await run(1, 'SELECT 1')
  // rejected, but its transaction remains open
  await run(2, 'BEGIN IMMEDIATE')
  const migrating = run(1, 'CREATE TABLE t (a)')
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  expect(outcomes).toHaveLength(2)
  database.close()
  await migrating
  expect(outcomes[2]).toMatchObject({ outcome: { type: 'failure', status: 499 } })
  expect(readdirSync(dirname(path))).toEqual(['data.db'])
})

test('a statement that cannot be described, because the file cannot be read, does not keep the write lock', async () => {
  const { readSync } = fs
  const restore = (): void => {
    fs.readSync = readSync
    syncBuiltinESMExports()
  }
  onTestFinished(restore)
  const outcomes: FromWorker[] = []
  const path = join(createTemporaryDirectory(), 'data.db')
  const database = await open(path, (message) => void outcomes.push(message))
  let call = 0
  const send = async (stream: number, request: PackedRequest): Promise<string> => {
    call += 1
    const message = { call, stream, permissions: FULL_PERMISSIONS, version: 3, requests: [request] } as const
    await database.run({ type: 'pipeline', ...message })
    return JSON.stringify(outcomes.at(-1))
  }
  await send(1, execute('SELECT 1 FROM sqlite_schema'))
  // otherwise, the first stream would still have the page in memory
  await send(2, execute('CREATE TABLE t (a)'))
  fs.readSync = () => {
    throw new Error('unreadable')
  }
  syncBuiltinESMExports()
  expect(await send(1, { type: 'describe', sql: 'CREATE TABLE u (a)', sqlId: null })).toContain('IOERR')
  restore()
  expect(await send(2, execute('INSERT INTO t VALUES (1)'))).not.toContain('error')
  // a stream whose lock was taken over would be told so
  expect(await send(1, execute('SELECT a FROM t'))).not.toContain('error')
  database.close()
})
