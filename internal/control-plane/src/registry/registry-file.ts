import { closeSync, existsSync, openSync, readSync, renameSync, writeSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { IN_USE_MARK, loadSqliteModule, SQLITE_HEADER } from '@batonsql/server-common/base'

/** A value of a column. */
export type RegistryValue = string | number | null

/**
 * The SQLite file of the registry. Calls are synchronous: a change is written when the call returns, and conditions that were
 * checked before the call still hold.
 */
export class RegistryFile {
  readonly #database: DatabaseSync
  /** Compiled statements by their SQL. */
  readonly #statements = new Map<string, StatementSync>()

  /**
   * Opens the file, or creates it readable only by its owner, because it contains private keys.
   * @param isDurable whether acknowledged changes must survive a power failure
   */
  constructor(path: string, isDurable: boolean) {
    closeSync(openSync(path, 'a', 0o600))
    restoreFile(path)
    this.#database = new (loadSqliteModule().DatabaseSync)(path)
    try {
      this.#database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${isDurable ? 'FULL' : 'OFF'}`)
    } catch (error) {
      this.#database.close()
      throw new Error(`the registry ${path} cannot be read`, { cause: error })
    }
  }

  /** Executes one statement. */
  run(sql: string, values: readonly RegistryValue[] = []): void {
    this.#prepare(sql).run(...values)
  }

  /** Returns the rows of a query. */
  all<Row>(sql: string, values: readonly RegistryValue[] = []): readonly Row[] {
    return this.#prepare(sql).all(...values) as Row[]
  }

  /** Commits all changes, or none; cannot be nested. @throws what `work` throws, after a rollback */
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

  /** Closes the file. Later changes fail, and are finished at the next start. */
  close(): void {
    if (this.#database.isOpen) this.#database.close()
  }

  #prepare(sql: string): StatementSync {
    if (!this.#database.isOpen) throw new Error('the registry is closed')
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }
}

/**
 * Repairs a file from an earlier version, which marked the file and renamed its WAL while it was open, and did not undo this if the
 * process was killed. Renames the WAL first, because an unmarked file is expected to have its WAL next to it.
 */
function restoreFile(path: string): void {
  if (existsSync(`${path}.wal`)) renameSync(`${path}.wal`, `${path}-wal`)
  const head = Buffer.alloc(IN_USE_MARK.length)
  const file = openSync(path, 'r+')
  readSync(file, head, 0, head.length, 0)
  if (head.equals(IN_USE_MARK)) writeSync(file, SQLITE_HEADER, 0, SQLITE_HEADER.length, 0)
  closeSync(file)
}
