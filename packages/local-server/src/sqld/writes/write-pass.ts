import type { WriteEffect } from '../request/write-effect.ts'
import type { StreamWrites, WriteGate } from './write-gate.ts'

/** Only errors have this key in an answer; in a text of the database its quotes are escaped. */
const ERROR = '"message":"'
/** How the answer of a stream that was not closed begins. */
const GOES_ON = '{"baton":"'

/** A request that has passed the gate. */
export class WritePass {
  readonly #gate: WriteGate
  readonly #stream: StreamWrites
  readonly #effect: WriteEffect
  readonly #written: () => void

  constructor(gate: WriteGate, stream: StreamWrites, effect: WriteEffect, written: () => void) {
    this.#gate = gate
    this.#stream = stream
    this.#effect = effect
    this.#written = written
  }

  /** Whether its stream may hold the write lock, or get it. */
  get mayHoldLock(): boolean {
    return this.#gate.isWriter(this.#stream)
  }

  /** The server has begun to answer. */
  answered(): void {
    this.#gate.answered(this.#stream, this.#effect)
  }

  /** Its client has left; it may still run. */
  left(): void {
    this.#gate.left(this.#stream)
  }

  /** Its stream is gone: the server has not taken it, or has ended, or the stream was closed. */
  refused(): void {
    this.left()
    this.#end(false, true)
  }

  /** Passes an answer on and learns from it. */
  watch(answer: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
    const isOfInterest = this.#effect.mayWrite || this.#effect.opens || this.#stream.isOpen
    return isOfInterest ? this.#read(answer) : answer
  }

  async *#read(answer: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    // until the answer says otherwise
    let [goesOn, hasError] = [true, true]
    let end: Buffer = Buffer.alloc(0)
    let isErrorSeen = false
    try {
      for await (const chunk of answer) {
        // what is looked for may be cut in two
        const border = Buffer.concat([end, chunk.subarray(0, ERROR.length)])
        if (end.length === 0) goesOn = border.includes(GOES_ON)
        isErrorSeen ||= border.includes(ERROR) || chunk.includes(ERROR)
        end = chunk.subarray(-ERROR.length)
        yield chunk
      }
      hasError = isErrorSeen
    } finally {
      // also when its client has read enough
      this.#end(goesOn, hasError)
    }
  }

  #end(goesOn: boolean, hasError: boolean): void {
    this.#gate.ended(this.#stream, this.#effect, { goesOn, hasError })
    this.#written()
  }
}
