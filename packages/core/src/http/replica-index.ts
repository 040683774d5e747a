import type { Clock } from '../base/clock.ts'
import { REPLICA_RESET_MS, REPLICA_WAIT_MS } from '../base/limits.ts'

/** A replication index as servers send it. */
type WireIndex = string | number | null | undefined

/**
 * Keeps the newest replication index that a client has seen. Replicas wait for it before they respond, so that a client reads
 * its own writes; a read that waits too long is rejected. A database that was restored may count from the beginning again, and its
 * replicas never reach the index. So the index is reset if a replica's own index has not grown for {@link REPLICA_RESET_MS}.
 */
export class ReplicaIndex {
  readonly #clock: Clock
  readonly #isUsed: boolean
  readonly #fetchIndex: () => Promise<WireIndex>
  #index: bigint | null
  /** The last request for the server's index, and until when its result is used. */
  #probe: { readonly serverIndex: Promise<bigint | null>; until: number } | null = null
  /** The index of a server that is behind, and since when it has not grown. */
  #behind: { readonly serverIndex: bigint; readonly since: number } | null = null

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

  /** Whether the server was behind the client's writes when it was last asked. */
  get isBehind(): boolean {
    return this.#behind !== null
  }

  /**
   * Watches a read that may be waiting for an index on a replica, and probes the server if this takes too long. Sending the read again
   * without a probe would send every slow read twice.
   * @param onReset called after the index was reset, so that the read can be sent without it @returns a function that stops watching
   */
  watch(index: string, onReset: () => void): () => void {
    let isWatching = true
    let cancel: () => void
    const probe = async (): Promise<void> => {
      const wasReset = await this.resetIfStuck(index)
      if (!isWatching) return
      if (wasReset) onReset()
      else schedule()
    }
    const schedule = (): void => {
      cancel = this.#clock.after(REPLICA_WAIT_MS, () => void probe())
    }
    schedule()
    return () => {
      isWatching = false
      cancel()
    }
  }

  /** Probes the server, and resets the index if it will never be reached. @returns whether it was reset, by this or another call */
  async resetIfStuck(index: string): Promise<boolean> {
    const serverIndex = await this.#fetchOnce()
    const now = this.#clock.now()
    // a server that fails, or sends no valid index, may have reached it
    if (serverIndex !== null) {
      const behind = this.#behind
      if (serverIndex >= BigInt(index)) this.#behind = null
      else if (behind === null || serverIndex > behind.serverIndex) this.#behind = { serverIndex, since: now }
      else if (now - behind.since >= REPLICA_RESET_MS && this.value === index) {
        this.#index = null
        this.#behind = null
      }
    }
    // unless it was reset, the index only grows
    return this.#index === null || this.#index < BigInt(index)
  }

  /** Requests the server's index, once for all reads that wait at the same time. */
  #fetchOnce(): Promise<bigint | null> {
    const clock = this.#clock
    if (this.#probe !== null && clock.now() < this.#probe.until) return this.#probe.serverIndex
    const serverIndex = this.#fetchIndex()
      .then((index) => (index == null ? null : BigInt(index)))
      .catch(() => null)
    const probe = { serverIndex, until: Infinity }
    this.#probe = probe
    void serverIndex.then(() => {
      // the next probe of the same read must not get this result
      probe.until = clock.now() + REPLICA_WAIT_MS / 2
    })
    return serverIndex
  }
}
