import { closeSync, existsSync, openSync, readSync, renameSync, writeSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { sqliteModule } from '../../base/sqlite-module.ts'

/** What a row of the file holds. */
export type RegistryValue = string | number | null

/**
 * One SQLite file. A change is on the disk when the call returns, and nothing else happens meanwhile in this process, so
 * that what was checked before still holds.
 */
export class RegistryFile {
  readonly #database: DatabaseSync

  /** Opens the file, or makes it: it holds private keys and is readable by its owner alone. */
  constructor(path: string) {
    closeSync(openSync(path, 'a', 0o600))
    unmark(path)
    this.#database = new (sqliteModule().DatabaseSync)(path)
    try {
      // an acknowledged change survives a power cut
      this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    } catch (error) {
      this.#database.close()
      throw new Error(`the registry ${path} cannot be read`, { cause: error })
    }
  }

  /** Runs one statement. */
  run(sql: string, values: readonly RegistryValue[] = []): void {
    this.#open.prepare(sql).run(...values)
  }

  /** The rows of a query. */
  all<Row>(sql: string, values: readonly RegistryValue[] = []): readonly Row[] {
    return this.#open.prepare(sql).all(...values) as Row[]
  }

  /** Makes all changes or none. @throws whatever the work throws, after it was undone */
  transaction(work: () => void): void {
    this.run('BEGIN IMMEDIATE')
    try {
      work()
      this.run('COMMIT')
    } catch (error) {
      if (this.#database.isTransaction) this.run('ROLLBACK')
      throw error
    }
  }

  /** What is still under way fails, and is finished at the next start. */
  close(): void {
    if (this.#database.isOpen) this.#database.close()
  }

  get #open(): DatabaseSync {
    if (!this.#database.isOpen) throw new Error('the registry is closed')
    return this.#database
  }
}

/**
 * An earlier version marked the file while it was open, and gave its log another name. Where it was killed, both have
 * stayed. The log first: a file without the mark is taken for one that has its log beside it.
 */
function unmark(path: string): void {
  if (existsSync(`${path}.wal`)) renameSync(`${path}.wal`, `${path}-wal`)
  const head = Buffer.alloc(16)
  const file = openSync(path, 'r+')
  readSync(file, head, 0, head.length, 0)
  if (head.toString('latin1') === 'in use by Baton\0') writeSync(file, 'SQLite format 3\0', 0, 'latin1')
  closeSync(file)
}
