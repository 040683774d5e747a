import { checkOptions, NON_EMPTY, type RulesOf } from '@batonsql/options'
import type { FailureKind, FailureOptions } from '../server/failure-options.ts'
import type { DatabaseAddress } from '../server/server.ts'
import type { MigrationProvider, Migrations } from './migrations.ts'
import { findRunnerHooks, type TestHooks } from './runner-hooks.ts'
import { acquireServer, releaseServer, type ServerOfProcess, type TestFailure } from './server-of-process.ts'
import type { Template, TemplateOptions } from './templates.ts'
import type { CreatedDatabase } from './test-server.ts'

/** Options of {@link useDatabase}. */
export interface UseDatabaseOptions {
  /**
   * Initial content of the databases: a function that fills one, given its address, or the path of an SQLite file. The function is
   * called once in each process, and databases are copies of the result; with `{ key, create }`, the result is kept on disk for all
   * processes and later runs. By default, databases are empty.
   */
  readonly template?: Template
  /**
   * Migrations that are applied before the template is filled: the folder of drizzle-kit's migrations, relative to the working
   * directory, or a migration provider of Kysely's. The result is kept on disk until they change. Needs
   * `@batonsql/drizzle-driver` or `@batonsql/kysely-dialect`. By default, there are none.
   */
  readonly migrations?: Migrations
  /**
   * Where templates are kept. @default `BATON_TEMPLATES`, or `node_modules/.cache/baton-templates` at or above the working
   * directory
   */
  readonly templateDirectory?: string
  /** Whether each test has its own database, or all tests of the file share one. @default 'test' */
  readonly scope?: 'test' | 'file'
  /** The hooks of the test runner. @default those of vitest or node:test, or the global hooks of another runner, such as jest */
  readonly hooks?: TestHooks
}

/** The database of the running test. */
export interface TestDatabase {
  /** Configuration for clients: `createClient(config)`, `new BatonDialect(config)`, `drizzle({ connection: config })`. */
  readonly config: DatabaseAddress
  /** Only the URL. */
  readonly url: string
  /**
   * Makes requests to the database fail, so that a program's own handling of failures can be tested. Without options, the next request
   * with statements fails. Rejects for an unknown kind or option.
   */
  fail(kind: FailureKind, options?: FailureOptions): Promise<TestFailure>
}

const PLACE = 'call useDatabase() at the top level of the test file, or in a describe'
const OPTIONS: RulesOf<UseDatabaseOptions> = {
  template: {
    text: 'a function, { key, create } or the path of a file',
    accepts: isTemplate,
  },
  migrations: { text: 'the path of a folder or a migration provider', accepts: isMigrations },
  templateDirectory: NON_EMPTY,
  scope: ['test', 'file'],
  hooks: 'object',
}

// an empty path would be the working directory
function isMigrations(value: unknown): boolean {
  if (typeof value === 'string') return value !== ''
  return typeof (Object(value) as Partial<MigrationProvider>).getMigrations === 'function'
}

function isTemplate(value: unknown): boolean {
  if (typeof value === 'string') return value !== ''
  if (typeof value === 'function') return true
  const { key, create } = Object(value) as { readonly key?: unknown; readonly create?: unknown }
  return typeof key === 'string' && key !== '' && typeof create === 'function'
}

/**
 * Gives each test a fresh database, on the server of the run (`@batonsql/local-server/vitest`) or else on an embedded one in the
 * test process. Call it while a test file is loaded, or in a `describe`; the runner's hooks remove the databases and close the
 * server.
 *
 * @returns the address of the database; reading it throws outside of tests and hooks, and if the template has failed
 * @throws TypeError for unknown options
 */
export function useDatabase(options: UseDatabaseOptions = {}): TestDatabase {
  checkOptions(options, OPTIONS, 'useDatabase')
  const { scope = 'test', hooks = findRunnerHooks(), ...templateOptions } = options
  if (typeof options.template === 'string' && options.migrations !== undefined)
    throw new TypeError('useDatabase: migrations cannot be combined with a template that is a file')
  const databases = new DatabaseSequence(templateOptions)
  const isShared = scope === 'file'
  registerFirst(hooks, async () => {
    databases.begin()
    // hooks of the file may use the database; if it could not be created, the error is thrown in each test
    if (isShared) await databases.renew().catch(() => {})
  })
  hooks.beforeEach(async () => {
    if (isShared) databases.check()
    else await databases.start()
  })
  // registered first, so that later hooks of the file still have the database
  if (!isShared) hooks.afterEach(async () => databases.finish())
  hooks.afterAll(() => databases.end())
  return {
    get config(): DatabaseAddress {
      return databases.address
    },
    get url(): string {
      return databases.address.url
    },
    fail: async (kind, failureOptions = {}) => await databases.fail(kind, failureOptions),
  }
}

/** Registers the hook that is called first. @throws Error inside a test, where runners such as jest reject hooks */
function registerFirst(hooks: TestHooks, work: () => Promise<void>): void {
  try {
    hooks.beforeAll(work)
  } catch (cause) {
    throw new Error(`useDatabase: the test runner rejected the hook; ${PLACE}`, { cause })
  }
}

/** Creates the databases for one call of `useDatabase`, one after the other. */
class DatabaseSequence {
  readonly #options: TemplateOptions
  #server: Promise<ServerOfProcess> | null = null
  #current: CreatedDatabase | null = null
  #failure: unknown = null
  #testsRunning = 0

  constructor(options: TemplateOptions) {
    this.#options = options
  }

  get address(): DatabaseAddress {
    return this.#database.address
  }

  async fail(kind: FailureKind, options: FailureOptions): Promise<TestFailure> {
    const database = this.#database
    return await ((await this.#server) as ServerOfProcess).fail(database, kind, options)
  }

  get #database(): CreatedDatabase {
    this.check()
    if (this.#current !== null) return this.#current
    throw new Error(
      `useDatabase: no database here; ${PLACE}, and read \`config\` and \`url\` inside a test or a hook before it`,
    )
  }

  begin(): void {
    this.#server ??= acquireServer()
    this.#server.catch(() => {}) // reported by `renew`
  }

  async start(): Promise<void> {
    this.#testsRunning += 1
    if (this.#testsRunning > 1)
      throw new Error(
        'useDatabase: two tests run at the same time and would share a database; use scope "file", or run them sequentially',
      )
    await this.renew()
  }

  finish(): void {
    this.#testsRunning -= 1
  }

  /** Replaces the previous database with a fresh one. */
  async renew(): Promise<void> {
    const server = await this.#discard()
    this.#failure = null
    try {
      this.#current = (await server?.create(this.#options)) ?? null
    } catch (error) {
      this.#failure = error
      throw error
    }
  }

  /** @throws the error that prevented the creation of the database */
  check(): void {
    if (this.#failure !== null) throw this.#failure
  }

  async end(): Promise<void> {
    if (this.#server === null) return
    await this.#discard().catch(() => {}) // nothing to discard if the server did not start
    this.#server = null
    await releaseServer()
  }

  async #discard() {
    const previous = this.#current
    // at once, so that a hook that runs at the same time does not use it
    this.#current = null
    const server = await this.#server
    if (previous !== null) server?.discard(previous)
    return server
  }
}
