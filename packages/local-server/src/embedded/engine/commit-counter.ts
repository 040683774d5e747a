import type { Clock } from '../../base/clock.ts'
import type { SqliteConnection, SqliteStatement } from './sqlite-connection.ts'

/** Counts the transactions that have changed a database, as the wire shows them: `replication_index`. */
export class CommitCounter {
  #count: bigint
  /** A connection beside the one that writes sees whether anything has changed. */
  readonly #observer: SqliteConnection
  readonly #dataVersion: SqliteStatement
  #lastVersion: number

  constructor(observer: SqliteConnection, clock: Clock) {
    this.#observer = observer
    const isNew = observer.readInteger('SELECT count(*) FROM sqlite_schema') === 0
    this.#dataVersion = observer.prepare('PRAGMA data_version', { write: false }) as SqliteStatement
    this.#lastVersion = this.#dataVersion.readInteger()
    // the index must grow over restarts too; for long no database has more than one commit in a millisecond
    this.#count = isNew ? 0n : BigInt(clock.now())
  }

  /** 0 before the first. */
  get count(): bigint {
    return this.#count
  }

  /** To be called when a transaction has ended that may have changed something. Whether it has. */
  look(): boolean {
    const version = this.#dataVersion.readInteger()
    const hasChanged = version !== this.#lastVersion
    if (hasChanged) this.#count += 1n
    this.#lastVersion = version
    return hasChanged
  }

  close(): void {
    this.#dataVersion.finalize()
    this.#observer.close()
  }
}
