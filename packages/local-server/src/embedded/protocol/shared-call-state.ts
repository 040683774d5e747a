const CURRENT = 0
const LAST_BEGUN = 1
const ENDING = 2
const FIRST_SLOT = 3
const SLOTS = 1_024

/**
 * What the server and a worker know of each other while the worker is busy and reads no messages: which call its
 * engine works on, which calls it has begun, and which are to be interrupted. Lies in shared memory. Calls are numbered
 * in the order in which they are sent.
 */
export class SharedCallState {
  readonly memory: SharedArrayBuffer
  readonly #cells: Int32Array

  constructor(memory = new SharedArrayBuffer(4 * (FIRST_SLOT + SLOTS))) {
    this.memory = memory
    this.#cells = new Int32Array(memory)
  }

  /** The call the engine works on; 0 for none. */
  get current(): number {
    return Atomics.load(this.#cells, CURRENT)
  }

  set current(call: number) {
    Atomics.store(this.#cells, CURRENT, call)
  }

  /** Whether the call the engine works on is to be interrupted. */
  get isInterrupted(): boolean {
    const call = this.current
    return call !== 0 && (this.isEnding || Math.abs(Atomics.load(this.#cells, interruptSlot(call))) === call)
  }

  interrupt(call: number): void {
    Atomics.store(this.#cells, interruptSlot(call), call)
  }

  /** The client of a call has left: its statement is interrupted, and what has not begun must not begin. */
  abandon(call: number): void {
    Atomics.store(this.#cells, interruptSlot(call), -call)
  }

  isAbandoned(call: number): boolean {
    return Atomics.load(this.#cells, interruptSlot(call)) === -call
  }

  hasBegun(call: number): boolean {
    // the difference, so that it does not matter when the numbers begin again
    return ((Atomics.load(this.#cells, LAST_BEGUN) - call) | 0) >= 0
  }

  /** To be called before anything of the call happens. */
  begin(call: number): void {
    Atomics.store(this.#cells, LAST_BEGUN, call)
  }

  /** Whether the worker is to end: nothing is begun any more, and what runs is interrupted. */
  get isEnding(): boolean {
    return Atomics.load(this.#cells, ENDING) !== 0
  }

  end(): void {
    Atomics.store(this.#cells, ENDING, 1)
  }
}

/** Holds the number of a call to interrupt, negative when its client has left. Never so many calls run at a time. */
function interruptSlot(call: number): number {
  return FIRST_SLOT + (call % SLOTS)
}
