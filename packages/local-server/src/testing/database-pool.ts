import { existsSync, realpathSync, statSync } from 'node:fs'
import type { Failure, FailureKind } from '../server/failure-options.ts'
import type { LocalServer } from '../server/server.ts'
import type { CreatedDatabase, FailureData, TestServer } from './test-server.ts'

interface PreparedDatabase {
  /** The file that it is a copy of. */
  readonly file: string | null
  readonly database: Promise<CreatedDatabase>
}

/**
 * Creates databases for tests, on an embedded server in this process. From the second test on, the database of the next one is
 * created and opened while a test runs.
 */
export class DatabasePool implements TestServer {
  readonly #server: LocalServer
  /** The first database that was taken, by the version of the file that it is a copy of; it may still be in preparation. */
  readonly #first = new Map<string, Promise<CreatedDatabase>>()
  /** The database that is prepared for the next test, by the version of its file. */
  readonly #next = new Map<string, PreparedDatabase>()
  /** Removals that no caller waits for. */
  readonly #removals = new Set<Promise<unknown>>()
  readonly #failures: Failure[] = []
  #count = 0

  private constructor(server: LocalServer) {
    this.#server = server
  }

  static async start(): Promise<DatabasePool> {
    // the server is not loaded by tests that use the one of the run
    const { startLocalServer } = await import('../server/server.ts')
    return new DatabasePool(await startLocalServer())
  }

  async take(file: string | null, discarded: readonly string[] = []): Promise<CreatedDatabase> {
    for (const name of discarded) this.#remove(this.discard(name))
    this.#discardOrphans()
    const version = getVersion(file)
    const database = this.#next.get(version)?.database ?? this.#create(file)
    // nothing is prepared during the first test, because there may be no second one
    if (!this.#first.has(version)) {
      this.#first.set(version, database)
      return await database
    }
    const next = database.then(async () => await this.#create(file))
    // if it fails, a call that has already taken it rejects with its error, and a later one creates a new database
    next.catch(() => this.#next.delete(version))
    this.#next.set(version, { file, database: next })
    return await database
  }

  /** Removes databases that are copies of a removed file, such as the template of a process that has ended. */
  #discardOrphans(): void {
    for (const [version, { file, database }] of this.#next) {
      if (file === null || existsSync(file)) continue
      this.#first.delete(version)
      this.#next.delete(version)
      this.#remove(database.then(async ({ name }) => await this.discard(name)))
    }
  }

  #remove(removal: Promise<void>): void {
    // if it fails, the database is removed when the server is closed
    const settled = removal.catch(() => {})
    this.#removals.add(settled)
    void settled.then(() => this.#removals.delete(settled))
  }

  async discard(name: string): Promise<void> {
    await this.#server.deleteDatabase(name)
  }

  async export(name: string, file: string): Promise<void> {
    await this.#server.exportDatabase(name, file)
  }

  async fail(name: string, kind: FailureKind, { sql, ...options }: FailureData): Promise<number> {
    const pattern = sql && { sql: new RegExp(sql.source, sql.flags) }
    return this.#failures.push(this.#server.fail(name, kind, { ...options, ...pattern })) - 1
  }

  async countFailed(failure: number): Promise<number> {
    return this.#failures[failure]?.count() ?? 0
  }

  async removeFailure(failure: number): Promise<void> {
    this.#failures[failure]?.remove()
  }

  async close(): Promise<void> {
    // the server cannot be closed while it creates a database
    await Promise.allSettled([
      ...this.#first.values(),
      // each waits for the one before it, so that the last is enough
      ...Array.from(this.#next.values(), ({ database }) => database),
      ...this.#removals,
    ])
    await this.#server.close()
  }

  async #create(file: string | null): Promise<CreatedDatabase> {
    this.#count += 1
    const name = `test-${this.#count}`
    const address = await this.#server.createDatabase(name, file === null ? {} : { fromFile: file })
    await this.#server.openDatabase(name)
    return { name, address }
  }
}

/** Identifies the version of a database file, by its path, and the times and sizes of the file and its journals. */
function getVersion(file: string | null): string {
  if (file === null) return ''
  // copying a missing file throws an error that says so
  if (!existsSync(file)) return file
  // the journals of a symbolic link are beside the file that it points to
  const path = realpathSync(file)
  const versions = ['', '-wal', '-journal'].map((suffix) => {
    const { mtimeMs, size } = statSync(`${path}${suffix}`, { throwIfNoEntry: false }) ?? {}
    return `${mtimeMs}:${size}`
  })
  return [file, ...versions].join(':')
}
