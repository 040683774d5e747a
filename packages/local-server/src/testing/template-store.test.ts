import fs, { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { TemplateStore } from './template-store.ts'

test('a template that another process removes when it is about to be used is made again', async () => {
  const store = new TemplateStore(createTemporaryDirectory())
  const get = (text: string): Promise<string> => store.get([], async (path) => writeFileSync(path, text))
  const file = await get('first')
  const stat = vi.spyOn(fs, 'statSync').mockImplementationOnce(() => {
    rmSync(file)
    throw new Error('ENOENT')
  })
  syncBuiltinESMExports()
  onTestFinished(() => {
    stat.mockRestore()
    syncBuiltinESMExports()
  })
  expect(readFileSync(await get('second'), 'utf8')).toBe('second')
})
