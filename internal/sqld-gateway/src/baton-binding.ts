import type { DatabaseId, RevokedAccess } from '@batonsql/server-common/backend'
import type { BodyWatcher } from '@batonsql/server-common/http'
import type { StreamWrites } from './writes/write-gate.ts'

/** How long a stream is tracked: as long as the server keeps expired streams. */
const RETENTION_MS = 320_000
const MAX_STREAMS = 20_000
/** A response begins with its baton: `{"baton":"<64 characters>"`. */
const HEAD = /^\{"baton":"([A-Za-z0-9+/]{64})"/
const HEAD_LENGTH = 76

const BATON = /^[A-Za-z0-9+/]{64}$/

interface StreamOwner {
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

/** Attributes of a stream, except its baton. */
export type StreamFacts = Pick<StreamOwner, 'database' | 'mayWrite' | 'hasAttached' | 'attached' | 'writes'>

/** Decides whether a response's stream may be continued. */
export interface BatonGate {
  /** Whether the stream may be continued. */
  mayContinue(): boolean
  /** Closes a stream that may not be continued. */
  drop(baton: string): void
}

/**
 * Tracks which database each stream belongs to, and whether a sender with write permission has used it. The server itself
 * lets anyone who holds a baton continue the stream, with any database and token. The first 8 bytes of a baton identify the
 * stream.
 */
export class BatonBinding {
  readonly #owners = new Map<string, StreamOwner>()

  /** Returns the stream of a baton; undefined if it belongs to another database, or to a sender with more permissions. */
  find(baton: string, database: DatabaseId, mayWrite: boolean): StreamFacts | undefined {
    const owner = BATON.test(baton) ? this.#owners.get(streamId(baton)) : undefined
    // SQL stored by a writer was not checked for readers
    return owner?.database === database && (mayWrite || !owner.mayWrite) ? owner : undefined
  }

  /** Records the baton of a response, unless its stream may not be continued. */
  createWatcher(facts: StreamFacts, gate: BatonGate): BodyWatcher {
    let head = ''
    return {
      onPart: (part) => {
        if (head.length >= HEAD_LENGTH) return
        head += part.toString('latin1', 0, HEAD_LENGTH)
        const baton = extractBaton(head)
        if (baton === null) return
        // records only the first baton
        head = head.padEnd(HEAD_LENGTH)
        if (gate.mayContinue()) this.#remember(baton, { ...facts, baton, seenAt: performance.now() })
        else gate.drop(baton)
      },
    }
  }

  /**
   * Drops the streams of a database, so that they cannot be continued; for write access, only those of senders who had it.
   * @returns the latest baton of each
   */
  drop(database: DatabaseId, access: RevokedAccess): readonly string[] {
    const batons: string[] = []
    for (const [stream, owner] of this.#owners) {
      if (owner.database !== database || (access === 'writes' && !owner.mayWrite)) continue
      this.#owners.delete(stream)
      batons.push(owner.baton)
    }
    return batons
  }

  #remember(baton: string, owner: StreamOwner): void {
    const stream = streamId(baton)
    // moves it to the end, so that the oldest are first
    this.#owners.delete(stream)
    this.#owners.set(stream, owner)
    for (const [oldest, { seenAt }] of this.#owners) {
      if (this.#owners.size <= MAX_STREAMS && performance.now() - seenAt < RETENTION_MS) break
      this.#owners.delete(oldest)
    }
  }
}

/** Extracts the baton from the beginning of a response. */
export function extractBaton(head: string): string | null {
  return HEAD.exec(head)?.[1] ?? null
}

function streamId(baton: string): string {
  return Buffer.from(baton, 'base64').toString('hex', 0, 8)
}
