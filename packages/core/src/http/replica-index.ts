import type { Clock } from '../base/clock.ts'
import { REPLICA_WAIT_MS } from '../base/limits.ts'

/** A replication index as servers send it. */
type WireIndex = string | number | null | undefined

/** The indexes of the server that a client uses, which may be a replica, and of its primary. */
export interface ServerIndexes {
  readonly server: WireIndex
  readonly primary: WireIndex
}

/** Watches a read that may be waiting for an index. */
export interface ReplicaWatch {
  /** Whether the last check found the server behind the index. */
  readonly isBehind: boolean
  stop(): void
}

/** What a check found out about a read that waits for an index. */
type Check = 'reached' | 'behind' | 'reset' | 'unknown'

/**
 * Keeps the newest replication index that a client has seen. Replicas wait for it before they respond, so that a client reads
 * its own writes, however long that takes. A database that was restored, or whose primary was restarted, may count from the
 * beginning again, and its replicas may never reach the index. A slow replica looks the same, so only the primary can prove it: if its
 * index is lower, the client continues with that one.
 */
export class ReplicaIndex {
  readonly #clock: Clock
  readonly #isUsed: boolean
  readonly #fetchIndexes: () => Promise<ServerIndexes>
  #index: bigint | null
  /** The last request for the server's indexes, the index that the client had then, and until when its result is used. */
  #probe: { readonly newest: bigint | null; readonly result: Promise<Indexes | null>; until: number } | null =
    null

  /**
   * @param minimum initial index
   * @param readYourWrites whether indexes are used at all
   * @param fetchIndexes requests the server's indexes
   */
  constructor(
    clock: Clock,
    fetchIndexes: () => Promise<ServerIndexes>,
    minimum: string | number | bigint | undefined,
    readYourWrites: boolean,
  ) {
    this.#clock = clock
    this.#fetchIndexes = fetchIndexes
    this.#isUsed = readYourWrites
    this.#index = minimum === undefined || !readYourWrites ? null : BigInt(minimum)
  }

  get value(): string | null {
    return this.#index === null ? null : String(this.#index)
  }

  record(index: WireIndex): void {
    if (index == null || !this.#isUsed || !/^\d+$/.test(String(index))) return
    const received = BigInt(index)
    if (this.#index === null || received > this.#index) this.#index = received
  }

  /**
   * Watches a read that may be waiting for an index on a replica, and checks the server while this takes long. Sending the read again
   * without a check would send every slow read twice.
   * @param onReset called after the index was reset, so that the read can be sent with the new one
   */
  watch(index: string, onReset: () => void): ReplicaWatch {
    let isWatching = true
    let cancel: () => void
    const check = async (): Promise<void> => {
      const result = await this.check(index)
      if (!isWatching) return
      watch.isBehind = result === 'behind'
      if (result === 'reset') onReset()
      // the primary may be restarting, or may be restored later
      else if (result !== 'reached') schedule()
    }
    const schedule = (): void => {
      cancel = this.#clock.after(REPLICA_WAIT_MS, () => void check())
    }
    schedule()
    const stop = (): void => {
      isWatching = false
      cancel()
    }
    const watch = { isBehind: false, stop }
    return watch
  }

  /** Asks the server whether it has reached an index that the client has seen, and resets the client's if its primary is behind it. */
  async check(index: string): Promise<Check> {
    const wanted = BigInt(index)
    // unless it was reset, the index only grows
    const wasReset = (): boolean => this.#index !== null && this.#index < wanted
    if (wasReset()) return 'reset'
    const newest = this.#index
    const indexes = await this.#fetchOnce(newest)
    if (wasReset()) return 'reset'
    if (indexes === null) return 'unknown'
    const { server, primary } = indexes
    if (server >= wanted) return 'reached'
    if (newest !== null && primary < newest && this.#index === newest) this.#index = primary
    return wasReset() ? 'reset' : 'behind'
  }

  /** Requests the server's indexes, once for all reads that wait at the same time; null if it does not send them. */
  #fetchOnce(newest: bigint | null): Promise<Indexes | null> {
    const clock = this.#clock
    if (this.#probe?.newest === newest && clock.now() < this.#probe.until) return this.#probe.result
    const result = this.#fetchIndexes()
      .then(({ server, primary }) =>
        server == null || primary == null ? null : { server: BigInt(server), primary: BigInt(primary) },
      )
      .catch(() => null)
    const probe = { newest, result, until: Infinity }
    this.#probe = probe
    void result.then(() => {
      // the next check of the same read must not get this result
      probe.until = clock.now() + REPLICA_WAIT_MS / 2
    })
    return result
  }
}

interface Indexes {
  readonly server: bigint
  readonly primary: bigint
}
