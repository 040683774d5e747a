import type { DatabaseId, RevokedAccess } from '@batonsql/server-common/backend'
import type { BodyWatcher } from '@batonsql/server-common/http'
import type { StreamWrites } from './writes/stream-writes.ts'

/** How long a stream is tracked: as long as the server keeps expired streams. */
const RETENTION_MS = 320_000
const MAX_STREAMS = 20_000
/** A response begins with its baton: `{"baton":"<64 characters>"`. */
const HEAD = /^\{"baton":"([A-Za-z0-9+/]{64})"/
const HEAD_LENGTH = 76

const BATON = /^[A-Za-z0-9+/]{64}$/

interface TrackedStream {
  /** The latest baton; sufficient to close the stream. */
  readonly baton: string
  readonly database: DatabaseId
  readonly mayWrite: boolean
  /** Whether the stream has another database attached. */
  readonly hasAttached: boolean
  /** Known ids of the attached databases. */
  readonly attached: readonly string[]
  readonly writes: StreamWrites
  readonly seenAt: number
}

export type StreamAttributes = Pick<
  TrackedStream,
  'database' | 'mayWrite' | 'hasAttached' | 'attached' | 'writes'
>

/**
 * Tracks which database each stream belongs to, and whether a sender with write permission has used it. The server itself
 * lets anyone who holds a baton continue the stream, with any database and token. The first 8 bytes of a baton identify the
 * stream.
 */
export class BatonBinding {
  readonly #streams = new Map<string, TrackedStream>()

  /** Returns the stream of a baton; undefined if it belongs to another database, or to a sender with more permissions. */
  find(baton: string, database: DatabaseId, mayWrite: boolean): StreamAttributes | undefined {
    const tracked = BATON.test(baton) ? this.#streams.get(getStreamId(baton)) : undefined
    // SQL stored by a writer was not checked for readers
    return tracked?.database === database && (mayWrite || !tracked.mayWrite) ? tracked : undefined
  }

  /** Creates a watcher that records the baton of a response, or passes it to `close` if the stream may not be continued. */
  createWatcher(
    attributes: StreamAttributes,
    mayContinue: () => boolean,
    close: (baton: string) => void,
  ): BodyWatcher {
    let head = ''
    return {
      onPart: (part) => {
        if (head.length >= HEAD_LENGTH) return
        head += part.toString('latin1', 0, HEAD_LENGTH)
        const baton = extractBaton(head)
        if (baton === null) return
        // records only the first baton
        head = head.padEnd(HEAD_LENGTH)
        if (mayContinue()) this.#remember(baton, { ...attributes, baton, seenAt: performance.now() })
        else close(baton)
      },
    }
  }

  /**
   * Drops the streams of a database, so that they cannot be continued; if write access ends, only the streams of senders who had it.
   * @returns the dropped streams
   */
  drop(database: DatabaseId, access: RevokedAccess): readonly TrackedStream[] {
    const dropped: TrackedStream[] = []
    for (const [id, tracked] of this.#streams) {
      if (tracked.database !== database || (access === 'writes' && !tracked.mayWrite)) continue
      this.#streams.delete(id)
      dropped.push(tracked)
    }
    return dropped
  }

  #remember(baton: string, tracked: TrackedStream): void {
    const id = getStreamId(baton)
    // moves it to the end, so that the oldest are first
    this.#streams.delete(id)
    this.#streams.set(id, tracked)
    for (const [oldest, { seenAt }] of this.#streams) {
      if (this.#streams.size <= MAX_STREAMS && performance.now() - seenAt < RETENTION_MS) break
      this.#streams.delete(oldest)
    }
  }
}

export function extractBaton(head: string): string | null {
  return HEAD.exec(head)?.[1] ?? null
}

function getStreamId(baton: string): string {
  return Buffer.from(baton, 'base64').toString('hex', 0, 8)
}
