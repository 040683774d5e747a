import { checkFailure, type FailureKind, type FailureOptions } from '../server/failure-options.ts'
import { DatabasePool } from './database-pool.ts'
import { RUN_SERVER, RunServer } from './run-server.ts'
import { type TemplateOptions, Templates } from './templates.ts'
import type { CreatedDatabase, TestServer } from './test-server.ts'

/** A failure of requests to the database of a test. */
export interface TestFailure {
  /** Returns the number of requests that have failed. */
  count(): Promise<number>
  /** Later requests succeed. Failures also end with the database. */
  remove(): Promise<void>
}

/** The server that the tests of a process use, with their templates. */
export class ServerOfProcess {
  readonly #server: TestServer
  readonly #templates: Templates
  #discarded: string[] = []

  private constructor(server: TestServer) {
    this.#server = server
    this.#templates = new Templates(server)
  }

  static async start(): Promise<ServerOfProcess> {
    const url = process.env[RUN_SERVER]
    return new ServerOfProcess(url === undefined ? await DatabasePool.start() : new RunServer(url))
  }

  /** Creates a database as a copy of a template, or empty. @throws Error with the name of a template that failed */
  async create(options: TemplateOptions): Promise<CreatedDatabase> {
    const file = await this.#templates.getFile(options)
    const discarded = this.#discarded
    this.#discarded = []
    return await this.#server.take(file, discarded)
  }

  /**
   * Removes a database when the next one is created, aborting requests and transactions that a test has left open: one call for both
   * takes less time.
   */
  discard({ name }: CreatedDatabase): void {
    this.#discarded.push(name)
  }

  async fail(database: CreatedDatabase, kind: FailureKind, options: FailureOptions): Promise<TestFailure> {
    checkFailure(kind, options)
    const { sql, ...others } = options
    const pattern = sql && { sql: { source: sql.source, flags: sql.flags } }
    const failure = await this.#server.fail(database.name, kind, { ...others, ...pattern })
    return {
      count: () => this.#server.countFailed(failure),
      remove: () => this.#server.removeFailure(failure),
    }
  }

  async close(): Promise<void> {
    // if that fails, the databases are removed with the server
    await Promise.allSettled(this.#discarded.map((name) => this.#server.discard(name)))
    await this.#server.close()
    await this.#templates.close()
  }
}

let runningServer: Promise<ServerOfProcess> | null = null
let userCount = 0

/** Returns the server of this process, started for its first user. Each call must be followed by a call to `releaseServer`. */
export function acquireServer(): Promise<ServerOfProcess> {
  userCount += 1
  runningServer ??= ServerOfProcess.start()
  return runningServer
}

/** Closes the server of this process when its last user has released it. */
export async function releaseServer(): Promise<void> {
  userCount -= 1
  if (userCount > 0) return
  const stopping = runningServer
  runningServer = null
  const server = await stopping?.catch(() => null) // the error has already been reported to its users
  await server?.close()
}
