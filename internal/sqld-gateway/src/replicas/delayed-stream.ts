import { Transform, type TransformCallback } from 'node:stream'
import type { ReplicaConditions } from '@batonsql/server-common/backend'

interface Chunk {
  readonly bytes: Buffer
  readonly arrivedAt: number
}

/** Passes bytes on, delaying each chunk as long as replicas in a location are. A changed delay also applies to waiting chunks. */
export class DelayedStream extends Transform {
  readonly #getLagMs: () => number
  readonly #removeListener: () => void
  #queue: Chunk[] = []
  #timer: NodeJS.Timeout | undefined
  /** Ends the stream; null before all chunks have arrived, and after the end. */
  #onEmpty: (() => void) | null = null

  constructor(conditions: ReplicaConditions, location: string) {
    super()
    this.#getLagMs = () => conditions.lagMs(location)
    this.#removeListener = conditions.onChange(() => this.#passOn())
  }

  override _transform(bytes: Buffer, _: BufferEncoding, done: TransformCallback): void {
    this.#queue.push({ bytes, arrivedAt: performance.now() })
    this.#passOn()
    done()
  }

  override _flush(done: TransformCallback): void {
    this.#onEmpty = () => {
      this.#onEmpty = null
      done()
    }
    this.#passOn()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer)
    this.#removeListener()
    done(error)
  }

  /** Passes on due chunks, and schedules the next one. */
  #passOn(): void {
    clearTimeout(this.#timer)
    const cutoff = performance.now() - this.#getLagMs()
    while (this.#queue[0] !== undefined && this.#queue[0].arrivedAt <= cutoff)
      this.push(this.#queue.shift()?.bytes)
    const [next] = this.#queue
    if (next === undefined) this.#onEmpty?.()
    else this.#timer = setTimeout(() => this.#passOn(), Math.ceil(next.arrivedAt - cutoff)).unref()
  }
}
