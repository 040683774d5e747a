import type { WriteGate } from './write-gate.ts'

/** The log is emptied when it is larger; a page has 4 KiB. */
const LOG_BYTES = 8 * 1_024 ** 2
/** How often the size of the log is looked at, at the most. */
const LOOK_MS = 100
/** How long it is tried, again and again, while readers need the log. */
const TRY_MS = 250
/** How long new writers are held back until those before them are through: longer when the log is so many times too large. */
const PATIENCE_MS = 500
const LONG_PATIENCE_MS = 5_500
const FAR_TOO_LARGE = 8
/** How long new writers are held back behind the last one before them, whatever the server does. */
const HELD_MS = 4_000
/** Writers are held back for one part of the time in so many when readers do not leave the log. */
const PAUSE_FACTOR = 10
const MIN_PAUSE_MS = 1_000

/** A database's log, as far as it has to be kept small. */
export interface KeptLog {
  /** Its size; 0 when there is none. */
  readonly bytes: () => Promise<number>
  /** Asks the server to write it into the database and to empty it. */
  readonly checkpoint: () => Promise<void>
}

/**
 * Keeps the write-ahead log of one database small. The server must not do it by itself: when it does while writers wait, it
 * may forget one of them, and then answers no write any more (docs/libsql-server-lost-writer.md).
 */
export class LogKeeper {
  readonly #gate: WriteGate
  readonly #log: KeptLog
  #timer: NodeJS.Timeout | null = null
  #isClosed = false

  constructor(gate: WriteGate, log: KeptLog) {
    this.#gate = gate
    this.#log = log
  }

  /** To be called after each request that may have written. */
  written(): void {
    this.#lookIn(LOOK_MS)
  }

  close(): void {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #lookIn(ms: number): void {
    if (this.#isClosed || this.#timer !== null) return
    this.#timer = setTimeout(() => {
      void this.#look()
        .catch(() => MIN_PAUSE_MS)
        .then((pauseMs) => {
          this.#timer = null
          if (pauseMs > 0) this.#lookIn(pauseMs)
        })
    }, ms).unref()
  }

  /** @returns after how long to look again; 0 = when something was written */
  async #look(): Promise<number> {
    if (!(await this.#isLarge())) return 0
    const patienceMs = (await this.#log.bytes()) > FAR_TOO_LARGE * LOG_BYTES ? LONG_PATIENCE_MS : PATIENCE_MS
    const closed = performance.now()
    await this.#gate.whileNoWriter(
      async () => {
        const begun = performance.now()
        do {
          await this.#log.checkpoint()
        } while (performance.now() - begun < TRY_MS && (await this.#isLarge()))
      },
      HELD_MS,
      patienceMs,
    )
    const heldMs = performance.now() - closed
    return (await this.#isLarge()) ? Math.max(MIN_PAUSE_MS, heldMs * PAUSE_FACTOR) : 0
  }

  async #isLarge(): Promise<boolean> {
    return (await this.#log.bytes()) > LOG_BYTES
  }
}
