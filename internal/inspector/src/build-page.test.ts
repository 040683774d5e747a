import * as vite from 'vite'
import { expect, onTestFinished, test, vi } from 'vitest'

test('a page that could not be built is built again by the next request', async () => {
  // other test files of this process may have built the page
  vi.resetModules()
  const build = vi.fn(vite.build).mockRejectedValueOnce(new Error('no space left'))
  vi.doMock('vite', () => ({ ...vite, build }))
  onTestFinished(() => {
    vi.doUnmock('vite')
    vi.resetModules()
  })
  const { readPageFile } = await import('./build-page.ts')
  await expect(readPageFile('page.js')).rejects.toThrow('no space left')
  expect(await readPageFile('page.js')).toContain('preact')
})
