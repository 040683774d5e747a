import { closeSync, openSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { loadSqliteModule } from '@batonsql/server-common/base'

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
