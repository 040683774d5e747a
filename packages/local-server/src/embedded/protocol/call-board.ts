const CURRENT = 0
const FIRST_SLOT = 1
const SLOTS = 1_024

/**
 * What the server and a worker know of each other while the worker is busy and reads no messages: which call its
 * engine works on, which calls it has begun, and which are to be interrupted. Lies in shared memory.
 */
export class CallBoard {
  readonly memory: SharedArrayBuffer
  readonly #cells: Int32Array

  constructor(memory = new SharedArrayBuffer(4 * (FIRST_SLOT + 2 * SLOTS))) {
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
    return call !== 0 && Atomics.load(this.#cells, interruptSlot(call)) === call
  }

  interrupt(call: number): void {
    Atomics.store(this.#cells, interruptSlot(call), call)
  }

  hasBegun(call: number): boolean {
    return Atomics.load(this.#cells, beginSlot(call)) === call
  }

  /** To be called before anything of the call happens. */
  begin(call: number): void {
    Atomics.store(this.#cells, beginSlot(call), call)
  }
}

/** There are never more calls at a time than slots: streams are fewer. */
function interruptSlot(call: number): number {
  return FIRST_SLOT + (call % SLOTS)
}

function beginSlot(call: number): number {
  return FIRST_SLOT + SLOTS + (call % SLOTS)
}
