import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { copyExample, run } from './run.ts'
import { JEST_NAME, type RuntimeTests } from './runtimes.ts'

/** Replaces the timers of all tests, before modules are loaded. */
const FAKE_TIMERS = '--fakeTimers={"enableGlobally":true}'

/** Registers tests that run the tests of the examples with their test runners. */
export function testRunners({ project, runtimes, commandOf }: RuntimeTests): void {
  describe('the tests of a user project', () => {
    const bun = runtimes.find((name) => name.startsWith('Bun')) ?? ''
    const node = runtimes.findLast((name) => name.startsWith('node')) ?? ''

    test(`examples/bun-test with ${bun}`, async (context) => {
      const cwd = copyExample('bun-test', project)
      // it reports to stderr, and exits with a code other than 0 if a test fails
      expect(await run([...commandOf(bun, context), 'test'], { cwd })).toContain('bun test')
    })

    test(`examples/jest with ${JEST_NAME} on ${node}`, async (context) => {
      const cwd = copyExample('jest', project)
      const jest = join(commandOf(JEST_NAME, context)[0] ?? '', 'jest')
      const command = [...commandOf(node, context), '--experimental-vm-modules', jest, '--json', FAKE_TIMERS]
      expect(JSON.parse(await run(command, { cwd }))).toMatchObject({ success: true, numPassedTests: 2 })
    })
  })
}
