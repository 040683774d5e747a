import { expect, test } from 'vitest'
import type { SerializedError, TestModule } from 'vitest/node'
import { summarize } from './summary-reporter.ts'

/** A test file as vitest reports it. @param states the states of its tests, in order */
const createTestFile = (
  name: string,
  states: readonly string[],
  state = states.includes('failed') ? 'failed' : 'passed',
): TestModule =>
  ({
    moduleId: `/tests/${name}`,
    relativeModuleId: name,
    project: { name: 'unit' },
    state: () => state,
    children: { allTests: () => states.map((testState) => ({ result: () => ({ state: testState }) })) },
  }) as unknown as TestModule

test('counts a file whose process crashed as one failure, in addition to the tests that had failed before', () => {
  const crash: SerializedError = { name: 'Error', message: 'Worker exited unexpectedly with signal SIGABRT' }
  const crashed = createTestFile('crashed.test.ts', ['passed', 'failed', 'pending'])
  const passed = createTestFile('passed.test.ts', ['passed', 'skipped'])
  expect(summarize([crashed, passed], [crash])).toMatchObject({ passed: 2, failed: 2, skipped: 2 })
})

test('counts a file that cannot be loaded as failed', () => {
  expect(summarize([createTestFile('unloaded.test.ts', [], 'failed')], [])).toMatchObject({
    passed: 0,
    failed: 1,
    skipped: 0,
  })
})
