import type { Clock } from '../base/clock.ts'
import { REPLICA_WAIT_MS } from '../base/limits.ts'

/** A replication index as servers send it. */
type WireIndex = string | number | null | undefined

/**
 * Keeps the newest replication index that a client has seen. Replicas wait for it before they respond, so that a client reads
 * its own writes. A database that was restored, or whose primary was restarted, may count from the beginning again. A replica
 * may then never reach the index, so the index is reset.
 */
export class ReplicaIndex {
  readonly #clock: Clock
  readonly #isUsed: boolean
  readonly #fetchIndex: () => Promise<WireIndex>
  #index: bigint | null
  /** The last check of whether the server is behind an index, and until when its result is used. */
  #probe: { readonly index: string; readonly isBehind: Promise<boolean>; until: number } | null = null

  /**
   * @param minimum initial index @param readYourWrites whether indexes are used at all
   * @param fetchIndex requests the server's index
   */
  constructor(
    clock: Clock,
    fetchIndex: () => Promise<WireIndex>,
    minimum: string | number | bigint | undefined,
    readYourWrites: boolean,
  ) {
    this.#clock = clock
    this.#fetchIndex = fetchIndex
    this.#isUsed = readYourWrites
    this.#index = minimum === undefined || !readYourWrites ? null : BigInt(minimum)
  }

  get value(): string | null {
    return this.#index === null ? null : String(this.#index)
  }

  /** Records the index of a response. */
  record(index: WireIndex): void {
    if (index == null || !this.#isUsed || !/^\d+$/.test(String(index))) return
    const received = BigInt(index)
    if (this.#index === null || received > this.#index) this.#index = received
  }

  /**
   * Watches a read that may be waiting for an index on a replica, and probes the server if this takes too long. Sending the read again
   * without a probe would send every slow read twice.
   * @param onReset called after the index was reset, so that the read can be sent without it @returns a function that stops watching
   */
  watch(index: string, onReset: () => void): () => void {
    return this.#clock.after(REPLICA_WAIT_MS, () => {
      void this.resetIfBehind(index).then((wasReset) => wasReset && onReset())
    })
  }

  /** Resets the index if the server has not reached it. @returns whether it was reset, by this or another call */
  async resetIfBehind(index: string): Promise<boolean> {
    if ((await this.#isBehind(index)) && this.value === index) this.#index = null
    // unless it was reset, the index only grows
    return this.#index === null || this.#index < BigInt(index)
  }

  /** Probes the server, once for all reads that wait for an index at the same time. */
  #isBehind(index: string): Promise<boolean> {
    const clock = this.#clock
    if (this.#probe?.index === index && clock.now() < this.#probe.until) return this.#probe.isBehind
    const isBehind = this.#fetchIndex()
      .then((serverIndex) => serverIndex != null && BigInt(serverIndex) < BigInt(index))
      // a server that fails, or sends no valid index, may have reached it
      .catch(() => false)
    const probe = { index, isBehind, until: Infinity }
    this.#probe = probe
    void isBehind.then(() => {
      probe.until = clock.now() + REPLICA_WAIT_MS
    })
    return isBehind
  }
}
