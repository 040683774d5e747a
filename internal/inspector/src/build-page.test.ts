import type * as Vite from 'vite'
import { build } from 'vite'
import { expect, test, vi } from 'vitest'
import { readPageFile } from './build-page.ts'

vi.mock('vite', async (original) => ({ ...(await original<typeof Vite>()), build: vi.fn() }))

test('a page that could not be built is built again by the next request', async () => {
  const { build: realBuild } = await vi.importActual<typeof Vite>('vite')
  vi.mocked(build).mockRejectedValueOnce(new Error('no space left')).mockImplementation(realBuild)
  await expect(readPageFile('page.js')).rejects.toThrow('no space left')
  expect(await readPageFile('page.js')).toContain('preact')
})
