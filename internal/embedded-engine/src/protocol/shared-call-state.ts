const CURRENT_CELL = 0
const LAST_BEGUN_CELL = 1
const SHUTDOWN_CELL = 2
const FIRST_SLOT_CELL = 3
const SLOT_COUNT = 1_024

/**
 * State that the server and a worker share in memory, because a busy worker does not read messages: the call that its engine
 * executes, the calls it has begun, and those to interrupt. Calls are numbered in the order in which they are sent.
 */
export class SharedCallState {
  readonly memory: SharedArrayBuffer
  readonly #cells: Int32Array

  constructor(memory = new SharedArrayBuffer(4 * (FIRST_SLOT_CELL + SLOT_COUNT))) {
    this.memory = memory
    this.#cells = new Int32Array(memory)
  }

  /** The call that the engine executes; 0 for none. */
  get current(): number {
    return Atomics.load(this.#cells, CURRENT_CELL)
  }

  set current(call: number) {
    Atomics.store(this.#cells, CURRENT_CELL, call)
  }

  /** Whether the current call must be interrupted. */
  get isInterrupted(): boolean {
    const call = this.current
    return (
      call !== 0 && (this.isShuttingDown || Math.abs(Atomics.load(this.#cells, interruptSlot(call))) === call)
    )
  }

  /** Interrupts the statements of a call: the running one, and later ones that take long. */
  interrupt(call: number): void {
    Atomics.store(this.#cells, interruptSlot(call), call)
  }

  /** Interrupts a call whose client has disconnected, and skips its remaining statements. */
  abandon(call: number): void {
    Atomics.store(this.#cells, interruptSlot(call), -call)
  }

  isAbandoned(call: number): boolean {
    return Atomics.load(this.#cells, interruptSlot(call)) === -call
  }

  hasBegun(call: number): boolean {
    // compares the difference, so that numbers may wrap around
    return ((Atomics.load(this.#cells, LAST_BEGUN_CELL) - call) | 0) >= 0
  }

  /** Marks a call as begun, before any part of it is executed. */
  begin(call: number): void {
    Atomics.store(this.#cells, LAST_BEGUN_CELL, call)
  }

  /** Whether the worker is about to exit: no more calls are begun, and running ones are interrupted. */
  get isShuttingDown(): boolean {
    return Atomics.load(this.#cells, SHUTDOWN_CELL) !== 0
  }

  shutDown(): void {
    Atomics.store(this.#cells, SHUTDOWN_CELL, 1)
  }
}

/**
 * Returns the cell for the number of an interrupted call, which is negative if its client has disconnected. Calls whose numbers
 * differ by a multiple of `SLOT_COUNT` share a cell, which has the one that was interrupted last.
 */
function interruptSlot(call: number): number {
  return FIRST_SLOT_CELL + (call % SLOT_COUNT)
}
