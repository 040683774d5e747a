import type { Readable } from 'node:stream'
import type { BodyWatcher } from '@batonsql/server-common/http'

/** Maximum time that an unread response may block other writers; also the server's limit for a transaction. */
const UNREAD_LIMIT_MS = 5_000
const POLL_MS = 500

/**
 * Closes a response that its client does not read, while other writers wait for the write lock that its transaction holds. The
 * server can only execute the next statement when the rows of this one have been read.
 */
export class UnreadResponse {
  readonly #isContended: () => boolean
  #lastPartAt = performance.now()
  readonly watcher: BodyWatcher = {
    onPart: () => {
      this.#lastPartAt = performance.now()
    },
  }

  /** @param isContended whether other writers wait */
  constructor(isContended: () => boolean) {
    this.#isContended = isContended
  }

  /** Watches a body until it is closed. */
  watch(body: Readable): void {
    const timer = setInterval(() => {
      // an empty buffer means that the server has sent nothing more
      const isUnread = body.readableLength > 0 && performance.now() - this.#lastPartAt > UNREAD_LIMIT_MS
      if (isUnread && this.#isContended())
        body.destroy(new Error('the response was not read while other writers waited for its transaction'))
    }, POLL_MS).unref()
    body.once('close', () => clearInterval(timer))
  }
}
