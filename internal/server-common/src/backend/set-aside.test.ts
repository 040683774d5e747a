import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import type { DatabaseId } from './backend.ts'
import { getSetAsideFolder, setAside } from './set-aside.ts'

const UNKNOWN = '00000000-0000-4000-8000-000000000001' as DatabaseId
const KNOWN = '00000000-0000-4000-8000-000000000002' as DatabaseId

let folder: string
beforeEach(() => {
  folder = createTemporaryDirectory()
})

test('a database that is set aside again does not replace the one that was set aside before', async () => {
  const directory = join(folder, 'dbs')
  const target = getSetAsideFolder(directory)
  for (const content of ['first', 'second', 'third']) {
    for (const name of [UNKNOWN, KNOWN, 'other']) {
      await mkdir(join(directory, name), { recursive: true })
      await writeFile(join(directory, name, 'data'), content)
    }
    const [moved, ...others] = await setAside(directory, new Set([KNOWN]))
    expect(others).toEqual([])
    expect(moved?.id).toBe(UNKNOWN)
    expect(await readFile(join(moved?.folder ?? '', 'data'), 'utf8')).toBe(content)
  }
  expect(await readFile(join(target, UNKNOWN, 'data'), 'utf8')).toBe('first')
  expect(await readFile(join(directory, KNOWN, 'data'), 'utf8')).toBe('third')
  expect(await setAside(directory, new Set([KNOWN]))).toEqual([])
})
