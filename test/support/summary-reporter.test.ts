import { expect, test } from 'vitest'
import type { SerializedError, TestModule } from 'vitest/node'
import { summaryOf } from './summary-reporter.ts'

/** A test file as vitest reports it. @param states of its tests, in order */
const testFile = (
  name: string,
  states: readonly string[],
  state = states.includes('failed') ? 'failed' : 'passed',
): TestModule =>
  ({
    moduleId: `/tests/${name}`,
    relativeModuleId: name,
    project: { name: 'unit' },
    state: () => state,
    children: { allTests: () => states.map((each) => ({ result: () => ({ state: each }) })) },
  }) as unknown as TestModule
const crashIn = (name: string, signal = 'SIGABRT'): SerializedError => ({
  name: 'Error',
  message: `Worker exited unexpectedly with signal ${signal} during started state while running test file /tests/${name}`,
})
const CRASHED = testFile('crashed.test.ts', ['passed', 'pending'])
const PASSED = testFile('passed.test.ts', ['passed', 'skipped'])

test('a file whose process crashed is to be run again, and is not counted', () => {
  const summary = summaryOf([CRASHED, PASSED], [crashIn('crashed.test.ts')])
  expect(summary).toMatchObject({ passed: 1, failed: 1, skipped: 1 })
  expect(summary.crashes).toEqual([{ project: 'unit', file: 'crashed.test.ts', signal: 'SIGABRT' }])
})

// scripts/test.mjs runs again only what accounts for all that failed

test('a test that failed before its process crashed counts as failed', () => {
  const failed = testFile('crashed.test.ts', ['failed', 'pending'])
  const { failed: count, crashes } = summaryOf([failed, PASSED], [crashIn('crashed.test.ts')])
  expect([count, crashes.length]).toEqual([2, 1])
})

test.each([
  ['a process that was killed from outside', [CRASHED], crashIn('crashed.test.ts', 'SIGKILL')],
  ['a process that crashed after its tests', [PASSED], crashIn('passed.test.ts')],
  ['a file without tests', [testFile('early.test.ts', [])], crashIn('early.test.ts')],
])('%s is not run again', (_, modules, error) => {
  const { failed, crashes } = summaryOf(modules, [error])
  expect([failed, crashes]).toEqual([1, []])
})

test('a file that cannot be loaded counts as failed', () => {
  expect(summaryOf([testFile('unloaded.test.ts', [], 'failed')], [])).toMatchObject({
    passed: 0,
    failed: 1,
    skipped: 0,
  })
})
