import { Readable } from 'node:stream'

/** Reads a body completely. */
export function readBytes(body: Readable): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // its events have already been emitted
    if (body.closed) reject(body.errored ?? new Error('the body was truncated'))
    const parts: Buffer[] = []
    body.on('data', (part: Buffer) => parts.push(part))
    body.once('end', () => resolve(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)))
    body.once('error', reject)
    body.once('close', () => {
      // checked first, because creating the error takes as long as reading a small body
      if (!body.readableEnded) reject(new Error('the body was truncated'))
    })
  })
}

/** Observes a body that is passed on. */
export interface BodyWatcher {
  /** Called for each part, before it is passed on. */
  onPart?(part: Buffer): void
  /** Called once, at the end. @param isComplete whether the whole body was received */
  onEnd?(isComplete: boolean): void
}

/** The source of a {@link StreamedBody}. It calls `receive` for each part, then `complete` or `fail`. */
export interface BodySource {
  pause(): void
  resume(): void
  /** Called if the client has disconnected. */
  destroy(): void
}

/** A body that is passed on as it arrives. Watchers can be added until it is read. */
export class StreamedBody extends Readable {
  readonly #source: BodySource
  readonly #watchers: BodyWatcher[] = []
  /** Data that arrived before the first read; null after it. */
  #buffered: Buffer[] | null = []
  #drainsOnDisconnect = false
  #hasEnded = false
  #onClosed = (): void => {}

  constructor(source: BodySource) {
    super()
    this.#source = source
  }

  /** Adds watchers. @param onDisconnect whether to destroy the source or read it to its end if the client stops reading */
  watch(watchers: readonly BodyWatcher[], onDisconnect: 'destroy' | 'drain'): void {
    this.#watchers.push(...watchers)
    if (onDisconnect === 'drain') this.#drainsOnDisconnect = true
  }

  receive(part: Buffer): void {
    if (this.#buffered !== null) {
      this.#buffered.push(part)
      return this.#source.pause()
    }
    for (const watcher of this.#watchers) watcher.onPart?.(part)
    if (!this.destroyed && !this.push(part)) this.#source.pause()
  }

  complete(): void {
    this.#hasEnded = true
    if (this.#buffered === null) this.#end(true)
  }

  fail(error: Error): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#buffered = null
    this.#end(false)
    this.destroy(error)
  }

  override _read(): void {
    this.#begin()
    this.#source.resume()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // a complete body that was never read has not been reported to the watchers
    if (this.#hasEnded && this.#buffered === null) return done(error)
    this.#onClosed = () => done(error)
    if (this.#drainsOnDisconnect) {
      this.#begin()
      this.#source.resume()
    } else {
      this.#hasEnded = true
      this.#source.destroy()
      this.#end(false)
    }
  }

  /** Passes on the data that has already arrived. */
  #begin(): void {
    const buffered = this.#buffered
    if (buffered === null) return
    this.#buffered = null
    for (const part of buffered) this.receive(part)
    if (this.#hasEnded) this.#end(true)
  }

  #end(isComplete: boolean): void {
    for (const watcher of this.#watchers.splice(0)) watcher.onEnd?.(isComplete)
    if (isComplete && !this.destroyed) this.push(null)
    this.#onClosed()
  }
}

/** Passes on a body while watchers observe it. @param onDisconnect see {@link StreamedBody.watch} */
export function watchBody<Body extends Buffer | Readable>(
  body: Body,
  watchers: readonly BodyWatcher[],
  onDisconnect: 'destroy' | 'drain' = 'destroy',
): Body {
  if (body instanceof Readable) {
    const streamedBody = body instanceof StreamedBody ? body : toStreamedBody(body)
    streamedBody.watch(watchers, onDisconnect)
    return streamedBody as Readable as Body
  }
  for (const watcher of watchers) {
    watcher.onPart?.(body)
    watcher.onEnd?.(true)
  }
  return body
}

function toStreamedBody(source: Readable): StreamedBody {
  // the source starts flowing with the first read
  source.pause()
  const body = new StreamedBody(source)
  source.on('data', (part: Buffer) => body.receive(part))
  source.once('end', () => body.complete())
  source.once('error', (error) => body.fail(error))
  source.once('close', () => {
    if (!source.readableEnded) body.fail(new Error('the body was truncated'))
  })
  return body
}
