import { checkOptionNames } from '../base/known-options.ts'
import type { DatabaseAddress } from '../server/server.ts'
import { hooksOfRunner, type TestHooks } from './runner-hooks.ts'
import { acquireServer, type MadeDatabase, releaseServer, type Template } from './seeded-server.ts'

/** How {@link useDatabase} makes databases. */
export interface UseDatabaseOptions {
  /**
   * What each database begins as: a function that migrates and fills one, given its address, or the path of an SQLite file.
   * The function is called once; databases are copies of the file it leaves. Without, they are empty.
   */
  readonly template?: Template
  /** Whether each test has a database of its own, or all tests of the file share one. @default 'test' */
  readonly scope?: 'test' | 'file'
  /** The hooks of the test runner. @default those of vitest or of node:test, whichever runs */
  readonly hooks?: TestHooks
}

/** The database of the test that runs. */
export interface TestDatabase {
  /** What clients are configured with: `createClient(config)`, `new BatonDialect(config)`, `drizzle({ connection: config })`. */
  readonly config: DatabaseAddress
  /** The address alone. */
  readonly url: string
}

const OPTION_NAMES = ['template', 'scope', 'hooks'] as const

/**
 * Gives each test a fresh database, on an embedded server in the process of the tests. To be called while a test file is read, or
 * in a `describe`; what is made is removed and closed by hooks of the runner.
 *
 * @returns where the database is; reading it throws outside of tests and hooks, and when the template has failed
 * @throws TypeError for unknown options
 */
export function useDatabase(options: UseDatabaseOptions = {}): TestDatabase {
  checkOptions(options)
  const { template, scope = 'test', hooks = hooksOfRunner() } = options
  const turn = new DatabaseTurn(template)
  const isShared = scope === 'file'
  hooks.beforeAll(async () => {
    turn.begin()
    // hooks of the file may want it; a failure is one of each test
    if (isShared) await turn.renew().catch(() => {})
  })
  hooks.beforeEach(async () => {
    if (isShared) turn.check()
    else await turn.start()
  })
  // hooks of the file's own that come later still have the database
  if (!isShared) hooks.afterEach(async () => turn.finish())
  hooks.afterAll(() => turn.end())
  return {
    get config(): DatabaseAddress {
      return turn.address
    },
    get url(): string {
      return turn.address.url
    },
  }
}

function checkOptions(options: UseDatabaseOptions): void {
  checkOptionNames('useDatabase', options, OPTION_NAMES)
  const { template, scope = 'test' } = options
  if (template !== undefined && typeof template !== 'function' && typeof template !== 'string')
    throw new TypeError('useDatabase: template must be a function, or the path of an SQLite file')
  if (scope !== 'test' && scope !== 'file')
    throw new TypeError(`useDatabase: scope must be "test" or "file", not ${JSON.stringify(scope)}`)
}

/** The databases of one `useDatabase`, one after the other. */
class DatabaseTurn {
  readonly #template: Template | undefined
  #server: ReturnType<typeof acquireServer> | null = null
  #current: MadeDatabase | null = null
  #failure: unknown = null
  #testsRunning = 0

  constructor(template: Template | undefined) {
    this.#template = template
  }

  get address(): DatabaseAddress {
    this.check()
    if (this.#current !== null) return this.#current.address
    throw new Error(
      'useDatabase: there is no database here; read `config` and `url` inside a test or a hook before it',
    )
  }

  begin(): void {
    this.#server ??= acquireServer()
    this.#server.catch(() => {}) // told by `renew`
  }

  /** A database for a test that begins. */
  async start(): Promise<void> {
    this.#testsRunning += 1
    if (this.#testsRunning > 1)
      throw new Error(
        'useDatabase: two tests run at the same time and would share a database; take scope "file", or run them in turn',
      )
    await this.renew()
  }

  finish(): void {
    this.#testsRunning -= 1
  }

  /** Puts a fresh database in the place of the one before. */
  async renew(): Promise<void> {
    const server = await this.#discard()
    this.#failure = null
    try {
      this.#current = (await server?.create(this.#template)) ?? null
    } catch (error) {
      this.#failure = error
      throw error
    }
  }

  /** @throws what kept the database from being made */
  check(): void {
    if (this.#failure !== null) throw this.#failure
  }

  async end(): Promise<void> {
    if (this.#server === null) return
    await this.#discard().catch(() => {}) // there is nothing to discard when the server did not start
    this.#server = null
    await releaseServer()
  }

  async #discard() {
    const server = await this.#server
    const before = this.#current
    this.#current = null
    if (before !== null) server?.discard(before)
    return server
  }
}
