import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseBackend } from '@batonsql/server-common/backend'
import { onTestFinished } from 'vitest'
import { ControlPlane } from '../src/control-plane.ts'

/** Returns a back end without databases. @param methods those that the test needs in addition */
export const createBackend = (methods: Partial<DatabaseBackend> = {}): DatabaseBackend =>
  ({
    setAsideUnregistered: async () => [],
    start: async () => 'test',
    resume: () => {},
    ...methods,
  }) as Partial<DatabaseBackend> as DatabaseBackend

/** Opens a control plane in a new directory, and closes it after the test. */
export async function openControlPlane(): Promise<ControlPlane> {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  const options = { directory, isDurable: false, organization: 'local', domain: null, version: '1' }
  const plane = await ControlPlane.open(options)
  onTestFinished(async () => {
    await plane.stop()
    await plane.close()
    await rm(directory, { recursive: true })
  })
  return plane
}
