import type { Readable } from 'node:stream'
import type { BodyWatcher } from '@batonsql/server-common/http'
import { LOCK_PERIOD_MS } from './stream-writes.ts'

const POLL_MS = 500

/**
 * Closes a response that its client does not read, while other writers are waiting for the write lock that its transaction holds.
 * Until the client reads the rows of a statement, the server does not execute the next one.
 *
 * The limit is `LOCK_PERIOD_MS`, the server's own limit for a transaction that another writer is waiting for. Like the server, the
 * guard also counts the time before the other writer arrived.
 *
 * A client counts as reading if its connection takes data from the body. The operating system's buffers can hold several MB, and
 * accept more data only when a large part of them is free. On Linux, a client that reads 100 kB/s may therefore be cut off, but not
 * one that reads 1 MB/s.
 */
export class UnreadResponseGuard {
  readonly #isContended: () => boolean
  #receivedBytes = 0
  /** Counts the bytes that arrive from the server. Must be one of the watchers of the body that is passed to `watch`. */
  readonly watcher: BodyWatcher = {
    onPart: (part) => {
      this.#receivedBytes += part.length
    },
  }

  /** @param isContended whether other writers are waiting */
  constructor(isContended: () => boolean) {
    this.#isContended = isContended
  }

  /** Watches a body until it is closed. Must be called only once, because the guard counts the bytes of one body. */
  watch(body: Readable): void {
    if (body.closed) return
    let takenBytes = 0
    let lastTakenAt = performance.now()
    const timer = setInterval(() => {
      const previousTakenBytes = takenBytes
      takenBytes = this.#receivedBytes - body.readableLength
      // if nothing is buffered, the client is waiting for the server
      if (body.readableLength === 0 || takenBytes > previousTakenBytes) lastTakenAt = performance.now()
      else if (performance.now() - lastTakenAt > LOCK_PERIOD_MS && this.#isContended())
        body.destroy(
          new Error(
            'the response was not read, or was read too slowly, while other writers were waiting for its transaction',
          ),
        )
    }, POLL_MS).unref()
    body.once('close', () => clearInterval(timer))
  }
}
