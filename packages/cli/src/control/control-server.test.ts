import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LocalServer } from '@batonsql/local-server'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { failAccepting } from '../../../../test/support/fail-accepting.ts'
import type { CommandContext } from '../command-context.ts'
import { control } from './control-client.ts'
import { openControlSocket } from './control-server.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  vi.stubEnv('XDG_RUNTIME_DIR', folder)
})
afterEach(() => rmSync(folder, { recursive: true }))

test.skipIf(process.platform === 'win32')(
  'leaves nothing behind if its socket cannot be opened',
  async () => {
    const server = { dataDirectory: join(folder, 'missing'), port: 8080 } as LocalServer
    await expect(openControlSocket(server)).rejects.toThrow('listen')
    expect(readdirSync(folder)).toEqual([])
  },
)

test.skipIf(process.platform === 'win32')(
  'connections that cannot be accepted do not end the server',
  async () => {
    const server = {
      dataDirectory: folder,
      port: 8080,
      databaseNames: [] as readonly string[],
    } as unknown as LocalServer
    await using _ = await openControlSocket(server)
    failAccepting()
    const context = { env: process.env, signal: new AbortController().signal } as CommandContext
    expect(await control({}, { method: 'list' }, context)).toEqual([])
  },
)
