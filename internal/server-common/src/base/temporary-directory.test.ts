import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { TemporaryDirectory } from './temporary-directory.ts'

test('any number of directories share one listener for the exit of the process', async () => {
  const count = process.listenerCount('exit')
  const directories = await Promise.all(
    Array.from({ length: 12 }, () => TemporaryDirectory.create('baton-test-')),
  )
  expect(process.listenerCount('exit')).toBe(count + 1)
  // the last listener is that of the directories
  process.listeners('exit').at(-1)?.(0)
  expect(directories.filter(({ path }) => existsSync(path))).toEqual([])
  await Promise.all(directories.map((directory) => directory.remove()))
  expect(process.listenerCount('exit')).toBe(count)
})
