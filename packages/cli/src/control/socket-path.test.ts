import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { findRuntimeDirectory } from './socket-path.ts'

// as for a user without an entry in the system's list
vi.mock(import('node:os'), async (importOriginal) => ({
  ...(await importOriginal()),
  userInfo: () => {
    throw new Error('uv_os_get_passwd returned ENOENT')
  },
}))

const DEFAULT = join(tmpdir(), `baton-${process.getuid?.() ?? -1}`)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test.each([undefined, '', '.', 'relative'])('ignores XDG_RUNTIME_DIR=%s', (XDG_RUNTIME_DIR) => {
  expect(findRuntimeDirectory({ XDG_RUNTIME_DIR })).toBe(DEFAULT)
})

test('uses XDG_RUNTIME_DIR, even if the directory does not exist yet', () => {
  for (const parent of [folder, join(folder, 'missing')])
    expect(findRuntimeDirectory({ XDG_RUNTIME_DIR: parent })).toBe(join(parent, 'baton'))
})

test.skipIf(process.platform === 'win32')('rejects a path below a file, and names the variable', () => {
  const file = join(folder, 'file')
  writeFileSync(file, '')
  expect(() => findRuntimeDirectory({ XDG_RUNTIME_DIR: file })).toThrow(
    `${join(file, 'baton')} cannot be used: ENOTDIR (is XDG_RUNTIME_DIR a directory?)`,
  )
})

test.skipIf(process.platform === 'win32')(
  'rejects a directory that other users can access, and a file',
  () => {
    const directory = join(folder, 'baton')
    mkdirSync(directory, { mode: 0o700 })
    expect(findRuntimeDirectory({ XDG_RUNTIME_DIR: folder })).toBe(directory)
    chmodSync(directory, 0o755)
    expect(() => findRuntimeDirectory({ XDG_RUNTIME_DIR: folder })).toThrow('only its owner can access')
    rmSync(directory, { recursive: true })
    writeFileSync(directory, '')
    expect(() => findRuntimeDirectory({ XDG_RUNTIME_DIR: folder })).toThrow('only its owner can access')
  },
)
