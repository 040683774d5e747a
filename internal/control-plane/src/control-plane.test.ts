import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseBackend } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ControlPlane } from './control-plane.ts'

/** A back end without databases. */
const backend = {
  quarantineUnknown: async () => [],
  start: async () => 'test',
  resume: () => {},
} as Partial<DatabaseBackend> as DatabaseBackend

/** Opens a control plane in a new directory. */
async function open(): Promise<ControlPlane> {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  const options = { directory, isDurable: false, organization: 'local', domain: null, version: '1' }
  const plane = await ControlPlane.open(options)
  onTestFinished(async () => {
    await plane.stop()
    plane.close()
    await rm(directory, { recursive: true })
  })
  return plane
}

test('records usage every 15 s, also after it could not be recorded', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const reported = vi.spyOn(console, 'error').mockImplementation(() => {})
  onTestFinished(() => reported.mockRestore())
  const plane = await open()
  await plane.start(backend)
  const sample = vi.spyOn(plane.usage, 'sampleTouched').mockRejectedValueOnce(new Error('disk full'))
  for (const count of [1, 2, 3]) {
    vi.advanceTimersByTime(15_000)
    expect(sample).toHaveBeenCalledTimes(count)
    // the sample has ended
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(reported).toHaveBeenCalledExactlyOnceWith('usage could not be recorded: Error: disk full')
  await plane.stop()
  vi.advanceTimersByTime(15_000)
  expect(sample).toHaveBeenCalledTimes(4)
})
