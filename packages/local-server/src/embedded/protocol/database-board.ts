const READERS_EXCLUDED = 0
const LOG_IS_MOVED = 1
const FIRST_READER = 2
/** How many workers can read a database beside the one that writes. */
export const MAX_READERS = 4
const CELL_BYTES = 4
const COMMITS_BYTE = 24

/**
 * What the workers of one database know of each other. Each one has an engine of its own: one writes, the others read.
 * Lies in shared memory.
 */
export class DatabaseBoard {
  readonly memory: SharedArrayBuffer
  readonly #cells: Int32Array
  readonly #commits: BigInt64Array
  /** How many locks of the writer exclude readers. */
  #exclusions = 0

  constructor(memory = new SharedArrayBuffer(COMMITS_BYTE + 8)) {
    this.memory = memory
    this.#cells = new Int32Array(memory, 0, COMMITS_BYTE / CELL_BYTES)
    this.#commits = new BigInt64Array(memory, COMMITS_BYTE)
  }

  /** How many transactions have changed the database; 0 before the first. */
  get commits(): bigint {
    return Atomics.load(this.#commits, 0)
  }

  set commits(count: bigint) {
    Atomics.store(this.#commits, 0, count)
  }

  /**
   * Whether all of the write-ahead log is in the file. A reader that begins now leaves the log aside: the writer begins
   * it anew, over what is there. Set by the writer.
   */
  get isLogMoved(): boolean {
    return Atomics.load(this.#cells, LOG_IS_MOVED) !== 0
  }

  set isLogMoved(isMoved: boolean) {
    Atomics.store(this.#cells, LOG_IS_MOVED, Number(isMoved))
  }

  /** For the writer, before it changes the file under the readers: false while one of them reads. */
  excludeReaders(): boolean {
    // first the sign, then the look: a reader does it the other way round, so that one of both notices the other
    Atomics.store(this.#cells, READERS_EXCLUDED, 1)
    for (let reader = 0; reader < MAX_READERS; reader += 1) {
      if (Atomics.load(this.#cells, FIRST_READER + reader) === 0) continue
      if (this.#exclusions === 0) Atomics.store(this.#cells, READERS_EXCLUDED, 0)
      return false
    }
    this.#exclusions += 1
    return true
  }

  /** Ends one exclusion. */
  admitReaders(): void {
    this.#exclusions -= 1
    if (this.#exclusions === 0) Atomics.store(this.#cells, READERS_EXCLUDED, 0)
  }

  /** For a reader, before it reads: false while readers are excluded. */
  beginReading(reader: number): boolean {
    Atomics.add(this.#cells, FIRST_READER + reader, 1)
    if (Atomics.load(this.#cells, READERS_EXCLUDED) === 0) return true
    this.endReading(reader)
    return false
  }

  endReading(reader: number): void {
    Atomics.sub(this.#cells, FIRST_READER + reader, 1)
  }

  /** The worker of a reader has ended, wherever it was. */
  forgetReader(reader: number): void {
    Atomics.store(this.#cells, FIRST_READER + reader, 0)
  }
}
