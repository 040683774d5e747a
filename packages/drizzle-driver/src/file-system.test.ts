import { afterEach, describe, expect, test, vi } from 'vitest'
import { fileSystem } from './file-system.ts'

afterEach(() => {
  vi.unstubAllGlobals()
})

test('it is available', async () => {
  expect((await fileSystem().stat(import.meta.dirname)).isDirectory()).toBe(true)
})

describe('where there is none, the error says what to do', () => {
  test.each([
    ['no process', undefined],
    ['a process of a bundler', { env: {} }],
    ['a runtime with parts of node', { getBuiltinModule: () => undefined }],
  ])('%s', (_, process) => {
    vi.stubGlobal('process', process)
    expect(fileSystem).toThrow(
      'this platform has no file system: pass `migrations` instead of `migrationsFolder`',
    )
  })
})
