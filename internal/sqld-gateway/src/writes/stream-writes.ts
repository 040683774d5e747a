import { type BodyWatcher, createPartSearch } from '@batonsql/server-common/http'
import type { StoredEffects, WriteEffect } from '../request/write-effect.ts'

/** How long the server lets a transaction hold the write lock. After that, a waiting writer takes over the lock. */
export const LOCK_PERIOD_MS = 5_000
/** After this time the server has closed an idle stream and rolled its transaction back. */
const STREAM_EXPIRED_MS = 11_000
/**
 * Only errors have this key in a response; inside database values, its quotes are escaped. It omits the first quotation mark, because
 * JSON is full of them: in rows with few `m`, the search for this text is about 20 times as fast.
 */
const ERROR = Buffer.from('message":"')
/** The beginning of a response whose stream remains open. */
const CONTINUED = '{"baton":"'

/** A transaction that may be open. */
interface OpenTransaction {
  readonly mayHoldLock: boolean
  /** When its first write was executed; null before. */
  readonly lockedSince: number | null
}

/** What the requests and responses of a stream show of its transaction and the write lock. Changed only by its requests. */
export class StreamWrites {
  readonly stored: StoredEffects = new Map()
  /** Requests that may change it, until they end. More than one only if a baton is used twice, which the server rejects. */
  readonly requests = new Set<WriteRequest>()
  /** Null if none can be open. */
  transaction: OpenTransaction | null = null
  /** Whether it has ever begun a transaction. Because its end cannot be detected reliably, such a stream is never held back. */
  hasBegun = false
  /** When its last request stopped running. */
  idleSince = 0

  /** Whether it may hold the write lock, or wait for it at the server. */
  get isWriter(): boolean {
    return this.transaction?.mayHoldLock === true || [...this.requests].some(({ effect }) => effect.mayWrite)
  }

  /** Whether the server may be executing a request. */
  get isRunning(): boolean {
    return [...this.requests].some(({ isRunning }) => isRunning)
  }

  /** Whether the server may be executing a write. */
  get isWriting(): boolean {
    return [...this.requests].some(({ isRunning, effect }) => isRunning && effect.mayWrite)
  }

  /** Whether the server has closed it because it was idle. */
  hasExpired(now: number): boolean {
    return !this.isRunning && now - this.idleSince > STREAM_EXPIRED_MS
  }

  /** Whether the server would pass the write lock from its transaction to a waiting writer. */
  hasUsedLockPeriod(now: number): boolean {
    return !this.isRunning && now - (this.transaction?.lockedSince ?? now) > LOCK_PERIOD_MS
  }

  /** Whether a request may change stored data, possibly by committing what was written before. */
  mayChangeData({ mayWrite, mayCommit }: WriteEffect): boolean {
    return mayWrite || (mayCommit && this.hasBegun)
  }

  /** Called when the server has closed it. */
  forget(): void {
    this.requests.clear()
    this.transaction = null
  }
}

/** The write gate, which requests report to. */
export interface RequestGate {
  /** Whether the server may still execute an abandoned request that changes data. */
  hasAbandoned: boolean
  /** Called when the server has responded to a request that is no longer running. */
  onResponse(effect: WriteEffect): void
  /** Called when a request has ended. */
  onEnd(stream: StreamWrites, effect: WriteEffect): void
}

/**
 * A request that the gate has admitted. It ends with `onRejected`, `onAbandoned` or `onStreamClosed`, or after `onExecuted` with its
 * response.
 */
export class WriteRequest {
  readonly effect: WriteEffect
  /** Whether the server may be executing it. */
  isRunning = true
  readonly #gate: RequestGate
  readonly #stream: StreamWrites
  readonly #mayChangeData: boolean

  constructor(gate: RequestGate, stream: StreamWrites, effect: WriteEffect) {
    this.effect = effect
    this.#gate = gate
    this.#stream = stream
    this.#mayChangeData = stream.mayChangeData(effect)
    stream.hasBegun ||= effect.beginsTransaction
    if (effect.mayWrite || effect.beginsTransaction || stream.transaction !== null) stream.requests.add(this)
  }

  /** Whether its stream may hold the write lock, or wait for it. */
  get mayHoldLock(): boolean {
    return this.#stream.isWriter
  }

  /** Called when the server has executed it: at the beginning of the response to a pipeline, or the end of that to a cursor. */
  onExecuted(): void {
    if (!this.isRunning) return
    this.#stop()
    this.#gate.onResponse(this.effect)
  }

  /** Called when the server has rejected it, which has not changed its stream. */
  onRejected(): void {
    this.isRunning = false
    this.#gate.onResponse(this.effect)
    this.#end(this.#stream.transaction)
  }

  /** Called when its response is no longer received; the server may still execute it. */
  onAbandoned(): void {
    this.#stop()
    this.#gate.hasAbandoned ||= this.#mayChangeData
    this.#end(this.#continueTransaction(true))
  }

  /** Called when its stream was closed, including because the server has stopped. */
  onStreamClosed(): void {
    this.#stop()
    this.#stream.forget()
    this.#gate.onEnd(this.#stream, this.effect)
  }

  /** Returns watchers that derive the state of the stream from the response; none if it cannot change. */
  createWatchers(): readonly BodyWatcher[] {
    if (!this.#stream.requests.has(this)) return []
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
      onEnd: (isComplete) => this.#onResponseEnd(CONTINUED.startsWith(start), hasError || !isComplete),
    }
    return [watcher]
  }

  #onResponseEnd(isContinued: boolean, hasError: boolean): void {
    this.onExecuted()
    const { beginsTransaction, endsTransaction } = this.effect
    const isOpen = isContinued && (beginsTransaction || this.#stream.transaction !== null)
    const hasEnded = endsTransaction && !hasError
    this.#end(isOpen && !hasEnded ? this.#continueTransaction(hasError) : null)
  }

  /** Returns the transaction that may be open after this request. */
  #continueTransaction(hasError: boolean): OpenTransaction {
    const { mayWrite, beginsTransaction } = this.effect
    const { mayHoldLock = false, lockedSince = null } = this.#stream.transaction ?? {}
    // only a write that was executed acquires the lock
    const locksNow = mayWrite && !hasError ? performance.now() : null
    return {
      mayHoldLock: mayHoldLock || mayWrite,
      // if the server took the lock from its transaction, the stream has begun another
      lockedSince: beginsTransaction ? locksNow : (lockedSince ?? locksNow),
    }
  }

  #stop(): void {
    this.isRunning = false
    this.#stream.idleSince = performance.now()
  }

  #end(transaction: OpenTransaction | null): void {
    // its stream was closed meanwhile
    if (!this.#stream.requests.delete(this)) return
    this.#stream.transaction = transaction
    this.#gate.onEnd(this.#stream, this.effect)
  }
}
