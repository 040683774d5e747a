import { type BodyWatcher, createPartSearch } from '@batonsql/server-common/http'
import type { WriteEffect } from '../request/write-effect.ts'
import type { StreamWriteState, WriteEnd, WriteGate } from './write-gate.ts'

/**
 * Only errors have this key in a response; inside database values, its quotes are escaped. It omits the first quotation mark, because
 * JSON is full of them: in rows with few `m`, the search for this text is about 20 times as fast.
 */
const ERROR = Buffer.from('message":"')
/** The beginning of a response whose stream remains open. */
const CONTINUED = '{"baton":"'

/** Tracks a request that the gate has admitted, until its response ends. */
export class WriteTicket {
  readonly #gate: WriteGate
  readonly #stream: StreamWriteState
  readonly #effect: WriteEffect
  readonly #onEnd: () => void

  constructor(gate: WriteGate, stream: StreamWriteState, effect: WriteEffect, onEnd: () => void) {
    this.#gate = gate
    this.#stream = stream
    this.#effect = effect
    this.#onEnd = onEnd
  }

  get mayHoldLock(): boolean {
    return this.#gate.isWriter(this.#stream)
  }

  onResponse(): void {
    this.#gate.onResponse(this.#stream, this.#effect)
  }

  /** Called when the client has disconnected; the request may still be executed. */
  onAbort(): void {
    this.#gate.markIdle(this.#stream)
  }

  /** Called when the stream is closed, including when the server rejects the request or stops. */
  onStreamClosed(): void {
    this.#gate.markIdle(this.#stream)
    this.#end({ isContinued: false, hasError: true })
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
      // if the response is empty, or was truncated before it showed whether the stream continues, the stream may still be open
      onEnd: (isComplete) =>
        this.#end({ isContinued: CONTINUED.startsWith(start), hasError: hasError || !isComplete }),
    }
    return [watcher]
  }

  #end(end: WriteEnd): void {
    this.#gate.onEnd(this.#stream, this.#effect, end)
    this.#onEnd()
  }
}
