const CURRENT_CELL = 0
const LAST_BEGUN_CELL = 1
const SHUTDOWN_CELL = 2
const EXECUTION_CELL = 3
const FIRST_SLOT_CELL = 4
const SLOT_COUNT = 1_024
/** The greatest call number: it fits into a cell and can be negated. */
const MAX_CALL_NUMBER = 0x7fffffff

/** Returns the number of the call after `last`, where 0 means that there was none. The greatest is followed by 1. */
export function nextCallNumber(last: number): number {
  return (last % MAX_CALL_NUMBER) + 1
}

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
    Atomics.add(this.#cells, EXECUTION_CELL, 1)
    Atomics.store(this.#cells, CURRENT_CELL, call)
  }

  /** Changes whenever `current` is set. If it does not change, the engine is executing the same statement. */
  get execution(): number {
    return Atomics.load(this.#cells, EXECUTION_CELL)
  }

  get isInterrupted(): boolean {
    const call = this.current
    return (
      call !== 0 && (this.isShuttingDown || Math.abs(Atomics.load(this.#cells, interruptSlot(call))) === call)
    )
  }

  /** Interrupts the statements of a call: the running one, and later ones that take long. An abandoned call stays abandoned. */
  interrupt(call: number): void {
    if (!this.isAbandoned(call)) Atomics.store(this.#cells, interruptSlot(call), call)
  }

  /** Interrupts a call whose client has disconnected, and skips its remaining statements. */
  abandon(call: number): void {
    Atomics.store(this.#cells, interruptSlot(call), -call)
  }

  isAbandoned(call: number): boolean {
    return Atomics.load(this.#cells, interruptSlot(call)) === -call
  }

  /** Whether a call has begun. Fewer than half of all numbers may be in use, because the greatest is followed by 1. */
  hasBegun(call: number): boolean {
    const lead = Atomics.load(this.#cells, LAST_BEGUN_CELL) - call + MAX_CALL_NUMBER
    return lead % MAX_CALL_NUMBER < MAX_CALL_NUMBER / 2
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
