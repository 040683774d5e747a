import { type BodyWatcher, createPartSearch } from '@batonsql/server-common/http'
import type { WriteEffect } from '../request/write-effect.ts'
import type { StreamWriteState, WriteGate } from './write-gate.ts'

/**
 * Only errors have this key in a response; inside database values, its quotes are escaped. It omits the first quotation mark, because
 * a search for text that begins with one takes ten times as long: JSON is full of them.
 */
const ERROR = Buffer.from('message":"')
/** The beginning of a response whose stream remains open. */
const CONTINUED = '{"baton":"'

/** Tracks a request that the gate has admitted, until its response ends. */
export class WriteTicket {
  readonly #gate: WriteGate
  readonly #stream: StreamWriteState
  readonly #effect: WriteEffect
  readonly #onWrite: () => void

  constructor(gate: WriteGate, stream: StreamWriteState, effect: WriteEffect, onWrite: () => void) {
    this.#gate = gate
    this.#stream = stream
    this.#effect = effect
    this.#onWrite = onWrite
  }

  get mayHoldLock(): boolean {
    return this.#gate.isWriter(this.#stream)
  }

  onResponse(): void {
    this.#gate.onResponse(this.#stream, this.#effect)
  }

  /** Called when the client has disconnected; the request may still be executed. */
  onAbort(): void {
    this.#gate.onAbort(this.#stream)
  }

  /** Called when the stream is closed, including when the server rejects the request or stops. */
  onStreamClosed(): void {
    this.onAbort()
    this.#end(false, true)
  }

  /** Returns watchers that derive the stream's state from the response; none if it cannot change. */
  createWatchers(): readonly BodyWatcher[] {
    if (!this.#effect.mayWrite && !this.#effect.beginsTransaction && !this.#stream.isOpen) return []
    let start = ''
    let hasError = false
    const searchError = createPartSearch((bytes) => {
      hasError ||= bytes.includes(ERROR)
    }, ERROR.length)
    const watcher: BodyWatcher = {
      onPart: (part) => {
        if (start.length < CONTINUED.length)
          start += part.toString('latin1', 0, CONTINUED.length - start.length)
        if (!hasError) searchError(part)
      },
      // if the response was truncated before it showed whether the stream continues, the stream may still be open
      onEnd: (isComplete) => this.#end(CONTINUED.startsWith(start), hasError || !isComplete),
    }
    return [watcher]
  }

  #end(isContinued: boolean, hasError: boolean): void {
    this.#gate.onEnd(this.#stream, this.#effect, { isContinued, hasError })
    this.#onWrite()
  }
}
