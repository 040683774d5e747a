import type { SqliteConnection, SqliteStatement } from './sqlite-connection.ts'

/** Counts the transactions that have changed a database; sent to clients as `replication_index`. */
export class CommitCounter {
  #count: bigint
  /** A separate connection, which detects changes made by the connections that write. */
  readonly #observer: SqliteConnection
  readonly #dataVersion: SqliteStatement
  /** The last value of `PRAGMA data_version`; null if it could not be read. */
  #lastVersion: number | null

  /** @param lastIndex the count when the database was closed; null if that is unknown */
  constructor(observer: SqliteConnection, lastIndex: bigint | null) {
    this.#observer = observer
    // unlike a query, this does not parse the schema, which takes longer than the rest of opening a database
    const isNew = observer.readInteger('PRAGMA schema_version') === 0
    this.#dataVersion = observer.prepare('PRAGMA data_version', { write: false }) as SqliteStatement
    this.#lastVersion = this.#dataVersion.readInteger()
    // the index must also increase after a restart; on average there is less than one commit per millisecond
    this.#count = lastIndex ?? (isNew ? 0n : BigInt(Date.now()))
  }

  /** Number of commits; 0 before the first. After a restart it begins at the current time in milliseconds. */
  get count(): bigint {
    return this.#count
  }

  /** Called when a transaction that may have changed something has ended. @returns whether it has changed anything */
  detectCommit(): boolean {
    const version = this.#dataVersion.readInteger()
    // if it cannot be read, a change is reported, because one that goes unnoticed is worse
    const hasChanged = version === null || version !== this.#lastVersion
    if (hasChanged) this.#count += 1n
    this.#lastVersion = version
    return hasChanged
  }

  close(): void {
    this.#dataVersion.finalize()
    this.#observer.close()
  }
}
