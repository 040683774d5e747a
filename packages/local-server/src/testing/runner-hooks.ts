/** The hooks of a test runner; each is given a function that is called before or after tests, and awaited. */
export interface TestHooks {
  beforeAll(work: () => Promise<void>): unknown
  beforeEach(work: () => Promise<void>): unknown
  afterEach(work: () => Promise<void>): unknown
  afterAll(work: () => Promise<void>): unknown
}

/** What runners leave in the global object. */
interface RunnerGlobals extends Partial<TestHooks> {
  /** Where vitest keeps its exports, of the copy that runs. */
  readonly __vitest_index__?: TestHooks
}

/**
 * The hooks of the runner that runs this process: vitest, one with global hooks as jest has, or node:test. They have to be
 * registered while a test file is read, so nothing is awaited here.
 * @throws Error when the runner has hooks that cannot be found
 */
export function hooksOfRunner(): TestHooks {
  const globals = globalThis as RunnerGlobals
  if (globals.__vitest_index__ !== undefined) return globals.__vitest_index__
  if (hasHooks(globals)) return globals
  const runner = runnerWithoutGlobals()
  if (runner === null) return hooksOfNode()
  throw new Error(
    `useDatabase: the hooks of the runner are not global here; pass them: import * as hooks from '${runner}'; useDatabase({ hooks })`,
  )
}

function hasHooks(globals: RunnerGlobals): globals is TestHooks {
  return (['beforeAll', 'beforeEach', 'afterEach', 'afterAll'] as const).every(
    (name) => typeof globals[name] === 'function',
  )
}

/** The module with the hooks of a runner that is not node:test; null for node:test. */
function runnerWithoutGlobals(): string | null {
  const { env, versions } = process
  if (versions['bun'] !== undefined) return 'bun:test'
  // a `node --test` that one of them has started has its variables, too
  if (env['NODE_TEST_CONTEXT'] !== undefined) return null
  if (env['JEST_WORKER_ID'] !== undefined) return '@jest/globals'
  return env['VITEST'] === undefined ? null : 'vitest'
}

function hooksOfNode(): TestHooks {
  const { before, beforeEach, afterEach, after } = process.getBuiltinModule('node:test')
  // its hooks are called for the tests inside of a test, too, which have the database of that one
  const running = new Set<string>()
  const isInside = ({ fullName }: NamedTest): boolean =>
    [...running].some((outer) => fullName.startsWith(`${outer} > `))
  return {
    beforeAll: (work) => before(work),
    beforeEach: (work) =>
      beforeEach(async (test: NamedTest) => {
        if (isInside(test)) return
        running.add(test.fullName)
        await work()
      }),
    afterEach: (work) =>
      afterEach(async (test: NamedTest) => {
        if (isInside(test)) return
        running.delete(test.fullName)
        await work()
      }),
    afterAll: (work) => after(work),
  }
}

/** What hooks of node:test get for a test: its name behind those it is in, with ` > ` between them. */
interface NamedTest {
  readonly fullName: string
}
