import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/**
 * Creates a directory that is removed after the test.
 * @param atEnd registers the removal; `afterAll` outside of tests
 */
export function createTemporaryDirectory(atEnd: (remove: () => void) => void = onTestFinished): string {
  const directory = mkdtempSync(join(tmpdir(), 'baton-test-'))
  // a process that has just been killed may still write to it
  atEnd(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }))
  return directory
}
