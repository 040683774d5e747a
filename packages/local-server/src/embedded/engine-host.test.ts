import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { DatabaseSettings } from '../backend.ts'
import { EngineHost } from './engine-host.ts'
import { engineModule } from './engine-module.ts'
import { DatabaseBoard } from './protocol/database-board.ts'
import { OWNER } from './protocol/permissions.ts'

const SETTINGS: DatabaseSettings = {
  sizeLimitBytes: null,
  allowAttach: false,
  blockReads: false,
  blockWrites: false,
  blockReason: null,
  keys: [],
}

test('what is said of a database while it is released does no harm to its worker', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const exits: string[] = []
  const host = new EngineHost(await engineModule(), {
    onExit: () => exits.push('exit'),
    onReleased() {},
    onChanges() {},
    onAsk: async () => null,
    onUsage() {},
  })
  await host.ready
  const { memory } = new DatabaseBoard()
  host.open({
    id: 'd',
    path: join(folder, 'data.db'),
    settings: SETTINGS,
    role: 'plain',
    dialect: null,
    isKept: false,
    board: memory,
    reader: null,
  })
  const released = host.release({ keep: true })
  host.closeStream(1)
  host.watch(true)
  host.applySettings(SETTINGS)
  await released
  // another database: the worker still works
  host.open({
    id: 'e',
    path: join(folder, 'other.db'),
    settings: SETTINGS,
    role: 'plain',
    dialect: null,
    isKept: false,
    board: memory,
    reader: null,
  })
  const { outcome } = host.pipeline(
    { stream: 2, permissions: OWNER, signal: new AbortController().signal },
    [{ type: 'close' }],
    3,
  )
  expect(await outcome).toMatchObject({ type: 'results', isClosed: true })
  expect(exits).toEqual([])
  await host.end()
})
