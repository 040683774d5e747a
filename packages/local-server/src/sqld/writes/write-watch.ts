import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabaseId } from '../../backend/backend.ts'

/** What is watched. */
export interface WatchedWrites {
  /** For how long no write of a database was answered while at least one waited; 0 where all is well. */
  readonly silentMs: () => ReadonlyMap<DatabaseId, number>
  /** Takes the write lock and gives it back. Resolves when the server has answered. */
  readonly probe: (id: DatabaseId) => Promise<void>
  /** Whether the server answers anything at all. */
  readonly responds: () => Promise<boolean>
  /** Whether the write lock is free in the file; null where that cannot be seen. */
  readonly isLockFree: (id: DatabaseId) => Promise<boolean | null>
  /** Neither the writes nor the probe were answered, and none of them runs. */
  readonly dead: (id: DatabaseId, silentMs: number) => Promise<void>
}

/** Times of the watch, in milliseconds. */
export interface WatchTimes {
  /** Two windows of the server: by then a writer that waits has got the lock, or another one before it has. */
  readonly patienceMs: number
  /** How long a probe may take. A writer that waits in line gets the lock within 5 s. */
  readonly probeMs: number
}

export const WATCH_TIMES: WatchTimes = { patienceMs: 10_000, probeMs: 6_000 }
const LOOK_MS = 1_000
/** After such a gap between two readings of the clock this process was blocked, and could not read any answer. */
const BLOCKED_MS = 2_000
/** The lock is free for a moment between two writers, too. */
const LOCK_LOOKS = 3
const BETWEEN_LOCK_LOOKS_MS = 100

/**
 * Tells a server that answers no write any more from one that is busy: a probe is not answered either, and the write lock
 * is free all the same. A statement that runs for long holds the lock.
 */
export class WriteWatch {
  readonly #writes: WatchedWrites
  readonly #times: WatchTimes
  readonly #probing = new Set<DatabaseId>()
  readonly #timer: NodeJS.Timeout
  readonly #now: () => number
  #lastReading: number
  /** When this process could last not read answers. */
  #blockedAt = -Infinity

  constructor(writes: WatchedWrites, times: WatchTimes = WATCH_TIMES, now = (): number => performance.now()) {
    this.#now = now
    this.#lastReading = now()
    this.#writes = writes
    this.#times = times
    const lookMs = Math.min(LOOK_MS, times.patienceMs / 2)
    this.#timer = setInterval(() => this.#look(), lookMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    this.#readClock()
    for (const id of this.#writes.silentMs().keys()) {
      if (this.#silentMs(id) < this.#times.patienceMs || this.#probing.has(id)) continue
      this.#probing.add(id)
      this.#examine(id)
        .catch(() => {})
        .finally(() => this.#probing.delete(id))
    }
  }

  async #examine(id: DatabaseId): Promise<void> {
    // what holds the lock is at work, and a probe would take the lock from it
    if (!(await this.#isStuck(id))) return
    const isAnswered = await Promise.race([
      this.#writes.probe(id).then(() => true),
      sleep(this.#times.probeMs, false, { ref: false }),
    ])
    // a process that was frozen meanwhile reads its answers now
    if (isAnswered || !(await this.#isStuck(id))) return
    await this.#writes.dead(id, this.#writes.silentMs().get(id) ?? 0)
  }

  /** Whether no write is answered, and none runs. */
  async #isStuck(id: DatabaseId): Promise<boolean> {
    if ((await this.#writes.responds()) && !(await this.#isLockFree(id))) return false
    return this.#silentMs(id) >= this.#times.patienceMs
  }

  /** For how long no write was answered; the time before this process was blocked does not count. */
  #silentMs(id: DatabaseId): number {
    const now = this.#readClock()
    return Math.min(this.#writes.silentMs().get(id) ?? 0, now - this.#blockedAt)
  }

  #readClock(): number {
    const now = this.#now()
    if (now - this.#lastReading > BLOCKED_MS) this.#blockedAt = now
    this.#lastReading = now
    return now
  }

  async #isLockFree(id: DatabaseId): Promise<boolean> {
    for (let look = 1; look <= LOCK_LOOKS; look += 1) {
      if ((await this.#writes.isLockFree(id)) !== true) return false
      await sleep(BETWEEN_LOCK_LOOKS_MS)
    }
    return true
  }
}
