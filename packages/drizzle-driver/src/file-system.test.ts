import { describe, expect, test, vi } from 'vitest'
import { fileSystem } from './file-system.ts'

test('the file system is available', async () => {
  expect((await fileSystem().stat(import.meta.dirname)).isDirectory()).toBe(true)
})

describe('without a file system, the error states the remedy', () => {
  test.each([
    ['no process', undefined],
    ['a process object from a bundler', { env: {} }],
    ['a runtime that implements parts of node', { getBuiltinModule: () => undefined }],
  ])('%s', (_, process) => {
    vi.stubGlobal('process', process)
    expect(fileSystem).toThrow(
      'this platform has no file system: pass `migrations` instead of `migrationsFolder`',
    )
  })
})
