import type { Clock } from '../base/clock.ts'
import { REPLICA_WAIT_MS } from '../base/limits.ts'

/** An index as servers send it. */
type WireIndex = string | number | null | undefined

/**
 * The newest state of the database that a client has seen. Replicas wait for it before they answer, so that a client reads what
 * it has written. A database that was restored, or whose primary was restarted, may count from the beginning: the index may
 * never come then, and is dropped.
 */
export class ReplicaIndex {
  readonly #clock: Clock
  readonly #isUsed: boolean
  readonly #ask: () => Promise<WireIndex>
  #index: bigint | null
  /** The question whether the server is behind an index, and until when its answer is good. */
  #asked: { readonly index: string; readonly isBehind: Promise<boolean>; until: number } | null = null

  /**
   * @param minimum index to begin with @param readYourWrites whether indexes are used at all
   * @param ask asks the server for its own index
   */
  constructor(
    clock: Clock,
    ask: () => Promise<WireIndex>,
    minimum: string | number | bigint | undefined,
    readYourWrites: boolean,
  ) {
    this.#clock = clock
    this.#ask = ask
    this.#isUsed = readYourWrites
    this.#index = minimum === undefined || !readYourWrites ? null : BigInt(minimum)
  }

  get value(): string | null {
    return this.#index === null ? null : String(this.#index)
  }

  /** Takes note of the index in an answer. */
  record(index: WireIndex): void {
    if (index == null || !this.#isUsed || !/^\d+$/.test(String(index))) return
    const seen = BigInt(index)
    if (this.#index === null || seen > this.#index) this.#index = seen
  }

  /**
   * Watches a read that waits for an index at a replica.
   * @param onReset called when the index was dropped, so that the read can be sent without it @returns what ends the watch
   */
  watch(index: string, onReset: () => void): () => void {
    return this.#clock.after(REPLICA_WAIT_MS, () => {
      void this.resetIfBehind(index).then((wasReset) => wasReset && onReset())
    })
  }

  /** Drops an index when the server says that it has not come to it. @returns whether it is dropped, also by other calls */
  async resetIfBehind(index: string): Promise<boolean> {
    if ((await this.#isBehind(index)) && this.value === index) this.#index = null
    // it only grows otherwise
    return this.#index === null || this.#index < BigInt(index)
  }

  /**
   * Asks the server, once for all that wait for an index. A later wait begins after the answer, and takes as long as that is
   * good: it gets one of its own.
   */
  #isBehind(index: string): Promise<boolean> {
    const clock = this.#clock
    if (this.#asked?.index === index && clock.now() < this.#asked.until) return this.#asked.isBehind
    const isBehind = this.#ask()
      .then((seen) => seen != null && BigInt(seen) < BigInt(index))
      // a server that does not answer, or says what is no index, may be there
      .catch(() => false)
    const asked = { index, isBehind, until: Infinity }
    this.#asked = asked
    void isBehind.then(() => {
      asked.until = clock.now() + REPLICA_WAIT_MS
    })
    return isBehind
  }
}
