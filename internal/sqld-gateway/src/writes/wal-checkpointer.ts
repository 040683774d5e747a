import type { WriteGate } from './write-gate.ts'

/** Size above which the WAL is truncated; a page is 4 KiB. */
const MAX_WAL_BYTES = 8 * 1_024 ** 2
/** Minimum interval between two checks of the size. */
const CHECK_INTERVAL_MS = 100
/** How long a checkpoint is retried while readers need the WAL. */
const RETRY_MS = 250
/** How long to hold back new writers until the current ones are done; longer if the WAL exceeds its limit by this factor. */
const MAX_WAIT_MS = 500
const LONG_WAIT_MS = 5_500
const OVERSIZE_FACTOR = 8
/** Maximum time to hold back new writers once the current ones are done. */
const MAX_HOLD_MS = 4_000
/** While readers prevent truncation, the pause is this many times as long as writers were held back. */
const PAUSE_FACTOR = 10
const MIN_PAUSE_MS = 1_000
/** Size from which a WAL that cannot be truncated is reported, and again whenever it has doubled. */
const REPORTED_BYTES = 256 * 1_024 ** 2

export interface WalAccess {
  /** Returns its size; 0 if it does not exist. */
  readonly bytes: () => Promise<number>
  /** Requests a checkpoint that truncates it. */
  readonly checkpoint: () => Promise<void>
  /** Reports that it grows because some reader always needs part of it. */
  readonly onNotice: (text: string) => void
}

/**
 * Keeps the WAL of one database small. The server's own checkpoints are disabled: if the server runs a checkpoint while writers
 * wait, it may lose a writer and then stop responding to writes (docs/self-hosting.md).
 */
export class WalCheckpointer {
  readonly #gate: WriteGate
  readonly #wal: WalAccess
  #timer: NodeJS.Timeout | null = null
  #isClosed = false
  #reportThreshold = REPORTED_BYTES

  constructor(gate: WriteGate, wal: WalAccess) {
    this.#gate = gate
    this.#wal = wal
  }

  /** Called after each request that may have written. */
  onWrite(): void {
    this.#checkIn(CHECK_INTERVAL_MS)
  }

  close(): void {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #checkIn(ms: number): void {
    if (this.#isClosed || this.#timer !== null) return
    this.#timer = setTimeout(() => {
      void this.#check()
        .catch(() => MIN_PAUSE_MS)
        .then((pauseMs) => {
          this.#timer = null
          if (pauseMs > 0) this.#checkIn(pauseMs)
        })
    }, ms).unref()
  }

  /** Truncates the WAL if it is large. @returns the delay until the next check, in ms; 0 if the next write triggers it */
  async #check(): Promise<number> {
    if (!(await this.#isLarge())) return 0
    const maxWaitMs = (await this.#wal.bytes()) > OVERSIZE_FACTOR * MAX_WAL_BYTES ? LONG_WAIT_MS : MAX_WAIT_MS
    const closedAt = performance.now()
    await this.#gate.withoutWriters(
      async () => {
        const startedAt = performance.now()
        do {
          await this.#wal.checkpoint()
        } while (performance.now() - startedAt < RETRY_MS && (await this.#isLarge()))
      },
      MAX_HOLD_MS,
      maxWaitMs,
    )
    const heldMs = performance.now() - closedAt
    const bytes = await this.#wal.bytes()
    if (bytes <= MAX_WAL_BYTES) {
      this.#reportThreshold = REPORTED_BYTES
      return 0
    }
    if (bytes >= this.#reportThreshold) {
      this.#reportThreshold = 2 * bytes
      this.#wal.onNotice(largeWalNotice(bytes))
    }
    return Math.max(MIN_PAUSE_MS, heldMs * PAUSE_FACTOR)
  }

  async #isLarge(): Promise<boolean> {
    return (await this.#wal.bytes()) > MAX_WAL_BYTES
  }
}

function largeWalNotice(bytes: number): string {
  const size = `${Math.round(bytes / 1_024 ** 2)} MiB`
  return `the write-ahead log has grown to ${size}: it can be truncated only while no read is in progress, but there is always at least one`
}
