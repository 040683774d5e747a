import { randomBytes } from 'node:crypto'
import type { DatabaseId, RevokedAccess } from '@batonsql/server-common/backend'
import { PipelineFailure } from '@batonsql/server-common/hrana'
import { BatonSigner } from './baton.ts'

// limits of the service
/** How long a stream stays open without a request. */
const IDLE_MS = 10_000
/** How long an expired stream is remembered: its requests are rejected as expired, and not as unknown. */
const KEEP_EXPIRED_MS = 300_000
/** Maximum number of open streams, of all databases. */
const MAX_STREAMS = 128
/** Maximum number of requests that wait for a stream to be closed, and how long each waits. */
const MAX_WAITING = 128
const MAX_WAIT_MS = 1_000
const SECOND_MS = 1_000

interface Stream {
  readonly number: number
  readonly database: DatabaseId
  /** Number of the next request, beginning with a random one; part of its baton. */
  sequence: bigint
  /** Whether a sender with write access has used it. */
  mayWrite: boolean
  /** Databases that it has attached, including those it has detached since. */
  readonly attached: DatabaseId[]
  timer: NodeJS.Timeout | undefined
  isExpired: boolean
}

/** Called when a stream has been closed because it was idle. */
export type ExpiryListener = (database: DatabaseId, stream: number) => void

/**
 * Tracks the open streams of a server: their batons, their idle time and their number.
 * A baton is valid for one request to its own database.
 */
export class StreamTable {
  readonly #onExpiry: ExpiryListener
  readonly #signer = new BatonSigner()
  readonly #streams = new Map<number, Stream>()
  readonly #waiting: (() => void)[] = []
  #lastNumber = 0
  #openCount = 0

  constructor(onExpiry: ExpiryListener) {
    this.#onExpiry = onExpiry
  }

  /** Opens a stream; waits up to a second for a free slot. @returns its number */
  async open(database: DatabaseId, mayWrite = true): Promise<number> {
    if (this.#openCount >= MAX_STREAMS) await this.#waitForSlot()
    else this.#openCount += 1
    this.#lastNumber += 1
    const number = this.#lastNumber
    const sequence = randomBytes(8).readBigUInt64BE() >> 1n
    this.#streams.set(number, {
      number,
      database,
      sequence,
      mayWrite,
      attached: [],
      timer: undefined,
      isExpired: false,
    })
    return number
  }

  /**
   * Continues the stream of a baton; the baton cannot be used again.
   * @param mayAttach whether the sender may attach a database now; must be true for every database that the stream has attached
   * @returns its number
   * @throws PipelineFailure if the baton is invalid or was used, or if its stream has expired
   */
  resume(
    baton: string,
    database: DatabaseId,
    mayWrite = true,
    mayAttach: (id: DatabaseId) => boolean = () => true,
  ): number {
    const content = this.#signer.verify(baton)
    const stream = content === null ? undefined : this.#streams.get(Number(content.stream))
    if (content === null || stream === undefined || stream.database !== database) {
      throw PipelineFailure.invalidBaton()
    }
    if (stream.isExpired) throw PipelineFailure.expired()
    if (stream.sequence !== content.sequence) {
      throw PipelineFailure.usedBaton()
    }
    if (!stream.attached.every(mayAttach)) throw PipelineFailure.invalidBaton()
    this.#take(stream)
    stream.mayWrite ||= mayWrite
    return stream.number
  }

  /** Returns the baton for the next request, and starts the idle timer. Null if the stream has ended in the meantime. */
  release(number: number): string | null {
    const stream = this.#streams.get(number)
    if (stream === undefined) return null
    // the service rounds up to the next whole second
    const now = performance.now()
    const expiresAt = Math.ceil((now + IDLE_MS) / SECOND_MS) * SECOND_MS
    stream.timer = setTimeout(() => this.#expire(stream), expiresAt - now).unref()
    return this.#signer.sign({ stream: BigInt(number), sequence: stream.sequence })
  }

  has(number: number): boolean {
    return this.#streams.has(number)
  }

  /** Removes a stream that was closed or has failed. */
  close(number: number): void {
    const stream = this.#streams.get(number)
    if (stream === undefined) return
    clearTimeout(stream.timer)
    this.#streams.delete(number)
    if (!stream.isExpired) this.#freeSlot()
  }

  /**
   * Removes the open streams of a database, for example because its engine has crashed. Keeps expired streams, so that they are
   * still reported as expired. If only write access was revoked, removes only the streams of senders who had it.
   * @returns the numbers of the removed streams
   */
  closeStreams(database: DatabaseId, access: RevokedAccess = 'all'): readonly number[] {
    const openStreams = [...this.#streams.values()].filter(
      (stream) => stream.database === database && !stream.isExpired && (access === 'all' || stream.mayWrite),
    )
    for (const { number } of openStreams) this.close(number)
    return openStreams.map(({ number }) => number)
  }

  /** Records that a stream attaches a database. Streams that are not in the table are ignored. */
  attach(number: number, database: DatabaseId): void {
    this.#streams.get(number)?.attached.push(database)
  }

  /** Returns the databases that a stream has attached; later ones are added to the same array. */
  getAttached(number: number): readonly DatabaseId[] {
    return this.#streams.get(number)?.attached ?? []
  }

  /** Removes the open streams that have a database attached. @returns the database and the number of each */
  closeAttaching(id: DatabaseId): readonly { readonly database: DatabaseId; readonly stream: number }[] {
    const openStreams = [...this.#streams.values()].filter(
      ({ attached, isExpired }) => attached.includes(id) && !isExpired,
    )
    for (const { number } of openStreams) this.close(number)
    return openStreams.map(({ database, number }) => ({ database, stream: number }))
  }

  countOpen(database: DatabaseId): number {
    let count = 0
    for (const stream of this.#streams.values())
      if (stream.database === database && !stream.isExpired) count += 1
    return count
  }

  /** Stops all timers. */
  clear(): void {
    for (const stream of this.#streams.values()) clearTimeout(stream.timer)
    this.#streams.clear()
  }

  #take(stream: Stream): void {
    clearTimeout(stream.timer)
    stream.sequence += 1n
  }

  #expire(stream: Stream): void {
    stream.isExpired = true
    stream.timer = setTimeout(() => this.#streams.delete(stream.number), KEEP_EXPIRED_MS).unref()
    this.#freeSlot()
    this.#onExpiry(stream.database, stream.number)
  }

  #freeSlot(): void {
    // passed directly to the next waiting request, so that no other request can take it
    const grant = this.#waiting.shift()
    if (grant === undefined) this.#openCount -= 1
    else grant()
  }

  async #waitForSlot(): Promise<void> {
    if (this.#waiting.length >= MAX_WAITING)
      throw PipelineFailure.service(429, 'Too many concurrent requests')
    await new Promise<void>((resolve, reject) => {
      const grant = (): void => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(grant), 1)
        reject(PipelineFailure.service(429, 'Timed out while opening database connection'))
      }, MAX_WAIT_MS)
      this.#waiting.push(grant)
    })
  }
}
