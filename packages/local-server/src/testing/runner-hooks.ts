/** Hooks of a test runner. Each receives a function that is called before or after tests, and awaited. */
export interface TestHooks {
  beforeAll(work: () => Promise<void>): unknown
  beforeEach(work: () => Promise<void>): unknown
  afterEach(work: () => Promise<void>): unknown
  afterAll(work: () => Promise<void>): unknown
}

/** Globals that runners set. */
interface RunnerGlobals extends Partial<TestHooks> {
  /** Exports of the running copy of vitest. */
  readonly __vitest_index__?: TestHooks
}

/**
 * Returns the hooks of the test runner: vitest, one with global hooks like jest, or node:test. Synchronous, because hooks must be
 * registered while a test file is loaded.
 * @throws Error if the runner's hooks cannot be found
 */
export function findRunnerHooks(): TestHooks {
  const globals = globalThis as RunnerGlobals
  if (globals.__vitest_index__ !== undefined) return globals.__vitest_index__
  if (hasHooks(globals)) return globals
  const runner = runnerWithoutGlobals()
  if (runner === null) return createNodeHooks()
  throw new Error(
    `useDatabase: the hooks of the runner are not global here; pass them: import * as hooks from '${runner}'; useDatabase({ hooks })`,
  )
}

function hasHooks(globals: RunnerGlobals): globals is TestHooks {
  return (['beforeAll', 'beforeEach', 'afterEach', 'afterAll'] as const).every(
    (name) => typeof globals[name] === 'function',
  )
}

/** Returns the module with the hooks of a runner other than node:test; null for node:test. */
function runnerWithoutGlobals(): string | null {
  const { env, versions } = process
  if (versions['bun'] !== undefined) return 'bun:test'
  // a `node --test` started by jest or vitest inherits its variables
  if (env['NODE_TEST_CONTEXT'] !== undefined) return null
  if (env['JEST_WORKER_ID'] !== undefined) return '@jest/globals'
  return env['VITEST'] === undefined ? null : 'vitest'
}

function createNodeHooks(): TestHooks {
  const { before, beforeEach, afterEach, after } = process.getBuiltinModule('node:test')
  // hooks are also called for subtests, which share the database of their parent
  const runningTests = new Set<string>()
  const isInside = ({ fullName }: NamedTest): boolean =>
    [...runningTests].some((outer) => fullName.startsWith(`${outer} > `))
  return {
    beforeAll: (work) => before(work),
    beforeEach: (work) =>
      beforeEach(async (test: NamedTest) => {
        if (isInside(test)) return
        runningTests.add(test.fullName)
        await work()
      }),
    afterEach: (work) =>
      afterEach(async (test: NamedTest) => {
        if (isInside(test)) return
        runningTests.delete(test.fullName)
        await work()
      }),
    afterAll: (work) => after(work),
  }
}

/** The test that a hook of node:test receives: its name after those of its parents, separated by ` > `. */
interface NamedTest {
  readonly fullName: string
}
