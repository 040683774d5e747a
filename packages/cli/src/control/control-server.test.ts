import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LocalServer } from '@batonsql/local-server'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openControlSocket } from './control-server.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  vi.stubEnv('XDG_RUNTIME_DIR', folder)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true })
})

test.skipIf(process.platform === 'win32')(
  'leaves nothing behind if its socket cannot be opened',
  async () => {
    const server = { dataDirectory: join(folder, 'missing'), port: 8080 } as LocalServer
    await expect(openControlSocket(server)).rejects.toThrow('listen')
    expect(readdirSync(folder)).toEqual([])
  },
)
