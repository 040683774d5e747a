import { writeFileSync } from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { DirectoryLock } from './directory-lock.ts'

test('names the process that uses a directory, and its host if that is another machine', async () => {
  // a server whose owner file was changed would exit at its next check
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const directory = createTemporaryDirectory()
  const inUseBy = (owner: string): string => `the directory ${directory} is in use by ${owner}`
  const acquireAgain = async (): Promise<string> =>
    await DirectoryLock.acquire(directory).then(
      () => 'acquired',
      (error: Error) => error.message,
    )
  const lock = await DirectoryLock.acquire(directory)
  expect(await acquireAgain()).toBe(inUseBy(`process ${process.pid}`))
  const ownerFile = join(directory, 'baton.lock')
  writeFileSync(ownerFile, JSON.stringify({ pid: 5, host: 'elsewhere' }))
  expect(await acquireAgain()).toBe(inUseBy('process 5 on elsewhere'))
  writeFileSync(ownerFile, '{')
  expect(await acquireAgain()).toBe(inUseBy('another process'))
  await lock.release()
  const nextLock = await DirectoryLock.acquire(directory)
  await nextLock.release()
})

test('a lock file that cannot be examined for a moment does not count as removed', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const directory = createTemporaryDirectory()
  await using lock = await DirectoryLock.acquire(directory)
  const examine = vi.fn(async () => {
    throw Object.assign(new Error('failed'), { code: 'EIO' })
  })
  const { stat } = fs
  onTestFinished(() => {
    fs.stat = stat
    syncBuiltinESMExports()
  })
  fs.stat = examine
  syncBuiltinESMExports()
  // a check begins only when the previous one has ended, and none begins after the lock was lost
  while (examine.mock.calls.length < 2 && !lock.isLost) {
    vi.advanceTimersByTime(1_000)
    await nextTurn()
  }
  expect(lock.isLost).toBe(false)
})
