import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabaseId } from '@batonsql/server-common/backend'

/** Access to the writes of a server. */
export interface WriteMonitor {
  /** Returns the databases that have been written to. */
  readonly databases: () => Iterable<DatabaseId>
  /** Returns how long a database has had pending writes without a response to any of them; 0 if no write is pending. */
  readonly stalledMs: (id: DatabaseId) => number
  /** Acquires and releases the write lock. Resolves when the server has responded. */
  readonly probe: (id: DatabaseId) => Promise<void>
  readonly responds: () => Promise<boolean>
  /** Whether the write lock is free according to the file; null if unknown. */
  readonly isLockFree: (id: DatabaseId) => Promise<boolean | null>
  readonly onStall: (id: DatabaseId, stall: Stall) => Promise<void>
}

/** A stall: neither writes nor a probe get a response. */
export interface Stall {
  /** How long writes have been pending without a response. */
  readonly stalledMs: number
  /** Whether the server responds to other requests. If so, it executes none of the writes, because the write lock is free. */
  readonly serverResponds: boolean
}

/** Time limits of the detector, in ms. */
export interface StallTimes {
  /**
   * How long writes may be pending without a response. By default two of the server's lock periods, within which at least one of
   * the waiting writers acquires the lock.
   */
  readonly stallAfterMs: number
  /** Time limit of a probe. A waiting writer acquires the lock within 5 s. */
  readonly probeTimeoutMs: number
}

export const STALL_TIMES: StallTimes = { stallAfterMs: 10_000, probeTimeoutMs: 6_000 }
const CHECK_INTERVAL_MS = 1_000
/** A gap this long between two clock readings means that this process was paused and could not read responses. */
const PAUSED_MS = 2_000
/** Number of checks that must find the lock free, because it is also free for a moment between two writers. */
const LOCK_CHECKS = 3
const LOCK_CHECK_INTERVAL_MS = 100

/**
 * Distinguishes a server that no longer responds to writes from a busy one: the probe gets no response either, and the write lock is
 * free, whereas a long-running statement would hold it. If the server responds to nothing at all, the lock does not matter.
 */
export class StallDetector {
  readonly #writes: WriteMonitor
  readonly #times: StallTimes
  readonly #examining = new Set<DatabaseId>()
  /** Pending probes. */
  readonly #probes = new Map<DatabaseId, Promise<true>>()
  readonly #timer: NodeJS.Timeout
  readonly #now: () => number
  #lastReading: number
  /** When this process was last paused. */
  #lastPausedAt = -Infinity

  constructor(writes: WriteMonitor, times: StallTimes, now = (): number => performance.now()) {
    this.#now = now
    this.#lastReading = now()
    this.#writes = writes
    this.#times = times
    const checkMs = Math.min(CHECK_INTERVAL_MS, times.stallAfterMs / 2)
    this.#timer = setInterval(() => this.#check(), checkMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #check(): void {
    this.#readClock()
    for (const id of this.#writes.databases()) {
      if (this.#stalledMs(id) < this.#times.stallAfterMs) {
        // a probe without a response says nothing about the next stall
        this.#probes.delete(id)
        continue
      }
      if (this.#examining.has(id)) continue
      this.#examining.add(id)
      this.#examine(id)
        // the next check examines it again
        .catch(() => {})
        .finally(() => this.#examining.delete(id))
    }
  }

  async #examine(id: DatabaseId): Promise<void> {
    // a running statement holds the lock, and a probe would compete with it
    if ((await this.#findStall(id)) === null) return
    const hasResponse = await Promise.race([
      this.#probe(id),
      sleep(this.#times.probeTimeoutMs, false, { ref: false }),
    ])
    // a process that was suspended meanwhile reads its responses now
    const stall = hasResponse ? null : await this.#findStall(id)
    if (stall !== null) await this.#writes.onStall(id, stall)
  }

  /** Sends a probe, unless one is pending: otherwise, a server that is never restarted would receive one every few seconds. */
  #probe(id: DatabaseId): Promise<true> {
    const send = async (): Promise<true> => {
      await this.#writes.probe(id).finally(() => this.#probes.delete(id))
      return true
    }
    const probe = this.#probes.get(id) ?? send()
    this.#probes.set(id, probe)
    return probe
  }

  /**
   * Returns null if no write has been pending for too long, or if one is being executed. One that holds the lock counts as executed
   * only while the server responds.
   */
  async #findStall(id: DatabaseId): Promise<Stall | null> {
    const serverResponds = await this.#writes.responds()
    if (serverResponds && !(await this.#isLockFree(id))) return null
    if (this.#stalledMs(id) < this.#times.stallAfterMs) return null
    return { stalledMs: this.#writes.stalledMs(id), serverResponds }
  }

  /** Returns how long writes have had no response, not counting time before this process was last paused. */
  #stalledMs(id: DatabaseId): number {
    const stalledMs = this.#writes.stalledMs(id)
    return stalledMs === 0 ? 0 : Math.min(stalledMs, this.#readClock() - this.#lastPausedAt)
  }

  #readClock(): number {
    const now = this.#now()
    if (now - this.#lastReading > PAUSED_MS) this.#lastPausedAt = now
    this.#lastReading = now
    return now
  }

  async #isLockFree(id: DatabaseId): Promise<boolean> {
    for (let check = 1; ; check += 1) {
      if ((await this.#writes.isLockFree(id)) !== true) return false
      if (check === LOCK_CHECKS) return true
      await sleep(LOCK_CHECK_INTERVAL_MS)
    }
  }
}
