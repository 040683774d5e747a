import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { loadEngineModule } from '../engine-module.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import { Database } from './database.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'

/** Opens a database whose files record what would remain of them after a power cut. */
async function open(path: string, isDurable: boolean) {
  const files = new DatabaseFiles(path)
  onTestFinished(() => files.closeAll())
  const names = new Map<number, string>()
  const onDisk = new Map<string, Buffer>()
  const recordingFiles = new Proxy(files, {
    get(target, key: keyof DatabaseFiles) {
      if (key === 'open')
        return (name: string, create: boolean) => {
          const descriptor = target.open(name, create)
          names.set(descriptor, name.endsWith('-wal') ? `${path}.wal` : path)
          return descriptor
        }
      if (key === 'sync')
        return (descriptor: number) => {
          const name = names.get(descriptor) ?? ''
          onDisk.set(basename(name), readFileSync(name))
          return target.sync(descriptor)
        }
      const member = target[key]
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  const engine = new EngineInstance(new ErasableInstance(await loadEngineModule()), {
    files: recordingFiles,
    state: new SharedCallState(),
  })
  const database = new Database(engine, {
    id: 'd',
    settings: {} as never,
    role: 'plain',
    lastIndex: null,
    dialect: null,
    isDurable,
    onChanges: () => {},
  })
  return { connection: database.connect(), onDisk }
}

/** Returns how many of the acknowledged rows survive a power cut, in the worst case. */
async function countRowsAfterPowerCut(isDurable: boolean): Promise<number> {
  const { connection, onDisk } = await open(join(createTemporaryDirectory(), 'data.db'), isDurable)
  connection.internalEngine.run('CREATE TABLE t(a)')
  for (let row = 0; row < 50; row += 1) connection.internalEngine.run(`INSERT INTO t VALUES (${row})`)
  const folder = join(createTemporaryDirectory(), 'after')
  mkdirSync(folder)
  for (const [name, bytes] of onDisk) writeFileSync(join(folder, name), bytes)
  const reopened = await open(join(folder, 'data.db'), true)
  try {
    return reopened.connection.internalEngine.readInteger('SELECT count(*) FROM t')
  } catch {
    return 0
  }
}

test('acknowledged changes survive a power cut', async () => {
  expect(await countRowsAfterPowerCut(true)).toBe(50)
})

test('never syncs a database that is not durable', async () => {
  expect(await countRowsAfterPowerCut(false)).toBe(0)
})
