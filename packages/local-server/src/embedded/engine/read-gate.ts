import type { DatabaseBoard } from '../protocol/database-board.ts'

/** What an engine does at the locks that it shares with the engines of other workers. */
export interface ReadGate {
  readonly onlyRead: boolean
  /** Whether the write-ahead log looks empty from here. */
  readonly hidesLog: boolean
  excludeReaders(): boolean
  admitReaders(): void
  logIsMoved(isMoved: boolean): void
  beginReading(): boolean
  endReading(): void
  sleep(milliseconds: number): void
}

/** The gate of the engine that writes. */
export function writerGate(board: DatabaseBoard): ReadGate {
  return {
    onlyRead: false,
    hidesLog: false,
    excludeReaders: () => board.excludeReaders(),
    admitReaders: () => board.admitReaders(),
    logIsMoved: (isMoved) => {
      board.isLogMoved = isMoved
    },
    beginReading: () => false,
    endReading() {},
    // it waits for nobody but itself
    sleep() {},
  }
}

/** The gate of an engine that reads; readers are numbered. */
export class ReaderGate implements ReadGate {
  readonly onlyRead = true
  readonly #board: DatabaseBoard
  readonly #reader: number
  readonly #never = new Int32Array(new SharedArrayBuffer(4))
  #open = 0
  #hidesLog = false

  constructor(board: DatabaseBoard, reader: number) {
    this.#board = board
    this.#reader = reader
  }

  /** While something is read, as it was when that began. */
  get hidesLog(): boolean {
    return this.#open === 0 ? this.#board.isLogMoved : this.#hidesLog
  }

  excludeReaders(): boolean {
    return false
  }

  admitReaders(): void {}

  logIsMoved(): void {}

  beginReading(): boolean {
    if (!this.#board.beginReading(this.#reader)) return false
    const { isLogMoved } = this.#board
    if (this.#open === 0) this.#hidesLog = isLogMoved
    else if (this.#hidesLog !== isLogMoved) {
      // another statement of this engine reads, from the other place
      this.#board.endReading(this.#reader)
      return false
    }
    this.#open += 1
    return true
  }

  endReading(): void {
    this.#open -= 1
    this.#board.endReading(this.#reader)
  }

  /** Blocks the thread. */
  sleep(milliseconds: number): void {
    Atomics.wait(this.#never, 0, 0, milliseconds)
  }
}
