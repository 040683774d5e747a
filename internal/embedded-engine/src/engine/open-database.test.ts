import { readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { DEFAULT_SETTINGS, newDatabaseId } from '@batonsql/server-common/backend'
import { FULL_PERMISSIONS } from '@batonsql/server-common/hrana'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { loadEngineModule } from '../engine-module.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { OpenDatabase } from './open-database.ts'

const execute = (sql: string) =>
  ({ type: 'execute', statement: { sql, sqlId: null, args: [], namedArgs: [] } }) as const

test.each(['close', 'drop'] as const)('does not open its files again after %s()', async (method) => {
  const path = join(createTemporaryDirectory(), 'data.db')
  const instance = new ErasableInstance(await loadEngineModule())
  const target = { id: newDatabaseId(), path, settings: DEFAULT_SETTINGS, role: 'plain' } as const
  const database = new OpenDatabase(
    { ...target, dialect: null, isDurable: false, lastIndex: null },
    {
      instance: () => instance,
      state: new SharedCallState(),
      send: () => {},
      fail: (error) => {
        throw error
      },
    },
  )
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
