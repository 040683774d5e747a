import { Readable } from 'node:stream'

/** Observes a body that is passed on. */
export interface BodyWatcher {
  /** Called for each part, before it is passed on. */
  onPart?(part: Buffer): void
  /** Called once, at the end. @param isComplete whether `onPart` was called for the whole body */
  onEnd?(isComplete: boolean): void
}

/** What happens to the rest of a body when its reader stops: it is not read, or read only for the watchers. */
export type OnDisconnect = 'destroy' | 'drain'

/** The source of a {@link StreamedBody}. It calls `receive` for each part, then `complete` or `fail`. */
export interface BodySource {
  pause(): void
  resume(): void
  /** Called if the reader has stopped and the rest is not needed. */
  destroy(): void
}

/** A body that is passed on as it arrives. Watchers can be added until it is read. */
export class StreamedBody extends Readable {
  readonly #source: BodySource
  readonly #watchers: BodyWatcher[] = []
  /**
   * - `waiting`: the body has not been read yet; what arrives is kept;
   * - `reading`: what arrives goes to the watchers and the reader; after the reader has stopped, only to the watchers;
   * - `ended`: `onEnd` of the watchers was called.
   */
  #state: 'waiting' | 'reading' | 'ended' = 'waiting'
  /** What arrived in the state `waiting`. */
  #keptParts: Buffer[] = []
  /** Whether the source has called `complete`. */
  #isComplete = false
  #onDisconnect: OnDisconnect = 'destroy'
  /** Closes this stream; set while the rest is read for the watchers. */
  #onDrained: (() => void) | null = null

  constructor(source: BodySource) {
    super()
    this.#source = source
  }

  /** Adds watchers. @param onDisconnect `drain` holds for all of the watchers, if it is given once */
  watch(watchers: readonly BodyWatcher[], onDisconnect: OnDisconnect): void {
    this.#watchers.push(...watchers)
    if (onDisconnect === 'drain') this.#onDisconnect = 'drain'
  }

  receive(part: Buffer): void {
    if (this.#state === 'waiting') {
      this.#keptParts.push(part)
      return this.#source.pause()
    }
    for (const watcher of this.#watchers) watcher.onPart?.(part)
    if (!this.destroyed && !this.push(part)) this.#source.pause()
  }

  complete(): void {
    this.#isComplete = true
    if (this.#state === 'reading') this.#end(true)
  }

  /** Ignored after `complete`. */
  fail(error: Error): void {
    if (this.#isComplete || this.#state === 'ended') return
    this.#end(false)
    this.destroy(error)
  }

  override _read(): void {
    this.#startReading()
    this.#source.resume()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#state === 'ended') return done(error)
    if (this.#onDisconnect === 'drain') {
      this.#onDrained = () => done(error)
      this.#startReading()
      this.#source.resume()
    } else {
      // first, because the source may call `fail` at once
      this.#state = 'ended'
      this.#source.destroy()
      this.#end(false)
      done(error)
    }
  }

  #startReading(): void {
    if (this.#state !== 'waiting') return
    this.#state = 'reading'
    for (const part of this.#keptParts.splice(0)) this.receive(part)
    if (this.#isComplete) this.#end(true)
  }

  #end(isComplete: boolean): void {
    this.#state = 'ended'
    for (const watcher of this.#watchers.splice(0)) watcher.onEnd?.(isComplete)
    if (isComplete && !this.destroyed) this.push(null)
    this.#onDrained?.()
  }
}
