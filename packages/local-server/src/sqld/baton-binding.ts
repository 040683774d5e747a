import type { DatabaseId, EndedAccess } from '../backend/backend.ts'
import type { StreamWrites } from './writes/write-gate.ts'

/** Streams are remembered as long as the server remembers expired ones. */
const REMEMBER_MS = 320_000
const MAX_REMEMBERED = 20_000
/** A response begins with its baton: `{"baton":"<64 characters>"`. */
const HEAD = /^\{"baton":"([A-Za-z0-9+/]{64})"/
const HEAD_LENGTH = 76

const BATON = /^[A-Za-z0-9+/]{64}$/

interface StreamOwner {
  /** The last one that was seen; good for closing the stream. */
  readonly baton: string
  readonly database: DatabaseId
  readonly mayWrite: boolean
  /** Whether it has another database attached. */
  readonly hasAttached: boolean
  /** Ids of those that it has attached, as far as they are known. */
  readonly attached: readonly string[]
  readonly writes: StreamWrites
  readonly seenAt: number
}

/** What is remembered of a stream, besides its baton. */
export type StreamFacts = Pick<StreamOwner, 'database' | 'mayWrite' | 'hasAttached' | 'attached' | 'writes'>

/** Decides about the baton of a response. */
export interface BatonGate {
  /** Whether its stream may be continued. */
  isGood(): boolean
  /** Ends a stream that may not. */
  drop(baton: string): void
}

/**
 * The real server continues a stream for every holder of its baton, whatever database and token the request is for. This
 * remembers which stream belongs to which database, and whether a sender with the right to write has used it;
 * the first 8 bytes of a baton name the stream.
 */
export class BatonBinding {
  readonly #owners = new Map<string, StreamOwner>()

  /** Whether a baton came from this database, and not from a sender with more rights there. */
  allows(baton: string, database: DatabaseId, mayWrite: boolean): boolean {
    if (!BATON.test(baton)) return false
    const owner = this.#owners.get(streamOf(baton))
    // texts stored with the right to write were not looked at with the eyes of a reader
    return owner !== undefined && owner.database === database && (mayWrite || !owner.mayWrite)
  }

  /** Whether the stream of a baton has another database attached. */
  hasAttached(baton: string): boolean {
    return this.#owners.get(streamOf(baton))?.hasAttached === true
  }

  /** Ids of the databases that the stream of a baton has attached. */
  attachedOf(baton: string): readonly string[] {
    return this.#owners.get(streamOf(baton))?.attached ?? []
  }

  /** What is known of the transaction of a stream. */
  writesOf(baton: string): StreamWrites | undefined {
    return this.#owners.get(streamOf(baton))?.writes
  }

  /** Passes a response on and notes its baton, unless the stream may not be continued. */
  async *watch(response: AsyncIterable<Buffer>, facts: StreamFacts, gate: BatonGate): AsyncGenerator<Buffer> {
    let head = ''
    for await (const chunk of response) {
      if (head.length < HEAD_LENGTH) {
        head += chunk.subarray(0, HEAD_LENGTH).toString('latin1')
        const baton = batonOf(head)
        if (baton !== null && gate.isGood())
          this.#remember(baton, { ...facts, baton, seenAt: performance.now() })
        else if (baton !== null) gate.drop(baton)
      }
      yield chunk
    }
  }

  /**
   * Forgets the streams of a database, so that they cannot be continued; for write access, those of senders who had it.
   * @returns a baton of each
   */
  drop(database: DatabaseId, access: EndedAccess): readonly string[] {
    const batons: string[] = []
    for (const [stream, owner] of this.#owners) {
      if (owner.database !== database || (access === 'writes' && !owner.mayWrite)) continue
      this.#owners.delete(stream)
      batons.push(owner.baton)
    }
    return batons
  }

  #remember(baton: string, owner: StreamOwner): void {
    const stream = streamOf(baton)
    // again at the end, so that the oldest stay at the front
    this.#owners.delete(stream)
    this.#owners.set(stream, owner)
    for (const [oldest, { seenAt }] of this.#owners) {
      if (this.#owners.size <= MAX_REMEMBERED && performance.now() - seenAt < REMEMBER_MS) break
      this.#owners.delete(oldest)
    }
  }
}

/** The baton that an answer begins with. */
export function batonOf(head: string): string | null {
  return HEAD.exec(head)?.[1] ?? null
}

function streamOf(baton: string): string {
  return Buffer.from(baton, 'base64').toString('hex', 0, 8)
}
