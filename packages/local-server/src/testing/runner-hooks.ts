/** The hooks of a test runner; each is given a function that is called before or after tests, and awaited. */
export interface TestHooks {
  beforeAll(work: () => Promise<void>): unknown
  beforeEach(work: () => Promise<void>): unknown
  afterEach(work: () => Promise<void>): unknown
  afterAll(work: () => Promise<void>): unknown
}

// hooks are registered while a test file is read, so the runner must be there before anybody asks
const makeHooks = isVitest() ? await hooksOfVitest() : await hooksOfNode()

/** The hooks of the runner that runs this process. @throws Error when it is vitest, and cannot be imported from here */
export const hooksOfRunner = (): TestHooks => makeHooks()

/** A `node --test` that vitest has started has the variables of both. */
function isVitest(): boolean {
  return process.env['VITEST'] !== undefined && process.env['NODE_TEST_CONTEXT'] === undefined
}

async function hooksOfVitest(): Promise<() => TestHooks> {
  try {
    const { beforeAll, beforeEach, afterEach, afterAll } = await import('vitest')
    return () => ({ beforeAll, beforeEach, afterEach, afterAll })
  } catch (cause) {
    const remedy = "pass its hooks: useDatabase({ hooks: await import('vitest') })"
    return () => {
      throw new Error(`useDatabase: vitest runs, but cannot be imported from here; ${remedy}`, { cause })
    }
  }
}

async function hooksOfNode(): Promise<() => TestHooks> {
  const { before, beforeEach, afterEach, after } = await import('node:test')
  return () => {
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
}

/** What hooks of node:test get for a test: its name behind those it is in, with ` > ` between them. */
interface NamedTest {
  readonly fullName: string
}
