import type { WriteEffect } from '../request/write-effect.ts'
import type { StreamWrites, WriteGate } from './write-gate.ts'

/** Only errors have this key in a response; in values from the database its quotes are escaped. */
const ERROR = '"message":"'
/** The beginning of a response whose stream remains open. */
const CONTINUED = '{"baton":"'

/** A request that has passed the gate. */
export class WriteTicket {
  readonly #gate: WriteGate
  readonly #stream: StreamWrites
  readonly #effect: WriteEffect
  readonly #onWrite: () => void

  constructor(gate: WriteGate, stream: StreamWrites, effect: WriteEffect, onWrite: () => void) {
    this.#gate = gate
    this.#stream = stream
    this.#effect = effect
    this.#onWrite = onWrite
  }

  /** Whether its stream may hold or acquire the write lock. */
  get mayHoldLock(): boolean {
    return this.#gate.isWriter(this.#stream)
  }

  /** Called when the response begins. */
  onResponse(): void {
    this.#gate.onResponse(this.#stream, this.#effect)
  }

  /** Called when the client has left; the request may still be executed. */
  onAbort(): void {
    this.#gate.onAbort(this.#stream)
  }

  /** Called when its stream is closed: the server has rejected the request or stopped, or the stream was closed. */
  onStreamClosed(): void {
    this.onAbort()
    this.#end(false, true)
  }

  /** Passes a response on and derives the state of the stream from it. */
  watch(response: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
    const isOfInterest = this.#effect.mayWrite || this.#effect.opens || this.#stream.isOpen
    return isOfInterest ? this.#read(response) : response
  }

  async *#read(response: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    // until the response shows otherwise
    let [isContinued, hasError] = [true, true]
    let end: Buffer = Buffer.alloc(0)
    let isErrorSeen = false
    try {
      for await (const chunk of response) {
        // a match may be divided between two chunks
        const border = Buffer.concat([end, chunk.subarray(0, ERROR.length)])
        if (end.length === 0) isContinued = border.includes(CONTINUED)
        isErrorSeen ||= border.includes(ERROR) || chunk.includes(ERROR)
        end = chunk.subarray(-ERROR.length)
        yield chunk
      }
      hasError = isErrorSeen
    } finally {
      // also when the client stops reading
      this.#end(isContinued, hasError)
    }
  }

  #end(isContinued: boolean, hasError: boolean): void {
    this.#gate.onEnd(this.#stream, this.#effect, { isContinued, hasError })
    this.#onWrite()
  }
}
