import type { Readable } from 'node:stream'
import type { DatabaseId } from '../backend.ts'

/** Streams are remembered as long as the server remembers expired ones. */
const REMEMBER_MS = 320_000
const MAX_REMEMBERED = 20_000
/** A response begins with its baton: `{"baton":"<64 characters>"`. */
const HEAD = /^\{"baton":"([A-Za-z0-9+/]{64})"/
const HEAD_LENGTH = 76

/**
 * The real server continues a stream for whoever has its baton, whatever database the request is for. This remembers
 * which stream belongs to which database; the first 8 bytes of a baton name the stream.
 */
export class BatonBinding {
  readonly #owners = new Map<string, { database: DatabaseId; seenAt: number }>()

  /** Whether a request may go to this database: it has no baton, or one that came from there. */
  allows(database: DatabaseId, body: Buffer): boolean {
    const baton = requestBaton(body)
    if (baton === null) return true
    const owner = this.#owners.get(streamOf(baton))
    // of the form the server gives out, or the server shall say what it thinks of it
    return owner === undefined ? baton.length !== 64 : owner.database === database
  }

  /** Passes a response on and notes its baton. */
  async *watch(database: DatabaseId, response: Readable): AsyncGenerator<Buffer> {
    let head = ''
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (head.length < HEAD_LENGTH) {
        head += chunk.subarray(0, HEAD_LENGTH).toString('latin1')
        const baton = HEAD.exec(head)?.[1]
        if (baton !== undefined) this.#remember(baton, database)
      }
      yield chunk
    }
  }

  #remember(baton: string, database: DatabaseId): void {
    const stream = streamOf(baton)
    // again at the end, so that the oldest stay at the front
    this.#owners.delete(stream)
    this.#owners.set(stream, { database, seenAt: Date.now() })
    for (const [oldest, { seenAt }] of this.#owners) {
      if (this.#owners.size <= MAX_REMEMBERED && Date.now() - seenAt < REMEMBER_MS) break
      this.#owners.delete(oldest)
    }
  }
}

function streamOf(baton: string): string {
  return Buffer.from(baton, 'base64').toString('hex', 0, 8)
}

/** The baton of a request. JSON is only parsed where there may be one: a key can also be written with escapes. */
function requestBaton(body: Buffer): string | null {
  if (!body.includes('"baton"') && !body.includes('\\u00')) return null
  try {
    const { baton } = JSON.parse(body.toString('utf8')) as { baton?: unknown }
    return typeof baton === 'string' ? baton : null
  } catch {
    return null // the server says what is wrong with it
  }
}
