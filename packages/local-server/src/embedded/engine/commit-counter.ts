import type { Clock } from '../protocol/clock.ts'
import type { DatabaseBoard } from '../protocol/database-board.ts'
import type { EngineConnection, EngineStatement } from './engine-connection.ts'

/** Counts the transactions that have changed a database, as the wire shows them: `replication_index`. */
export class CommitCounter {
  readonly #board: DatabaseBoard
  /** A connection beside the one that writes sees whether anything has changed. */
  readonly #observer: EngineConnection
  readonly #dataVersion: EngineStatement
  #lastVersion: number

  constructor(observer: EngineConnection, board: DatabaseBoard, clock: Clock) {
    this.#board = board
    this.#observer = observer
    const isNew = observer.readInteger('SELECT count(*) FROM sqlite_schema') === 0
    this.#dataVersion = observer.prepare('PRAGMA data_version', { write: false }) as EngineStatement
    this.#lastVersion = this.#dataVersion.readInteger()
    // the index must grow over restarts too; nobody commits more than once a millisecond for long
    board.commits = isNew ? 0n : BigInt(clock.now())
  }

  /** To be called when a transaction has ended that may have changed something. Whether it has. */
  look(): boolean {
    const version = this.#dataVersion.readInteger()
    const hasChanged = version !== this.#lastVersion
    if (hasChanged) this.#board.commits += 1n
    this.#lastVersion = version
    return hasChanged
  }

  close(): void {
    this.#dataVersion.finalize()
    this.#observer.close()
  }
}
