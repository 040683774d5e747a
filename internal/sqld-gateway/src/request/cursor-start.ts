import { Readable } from 'node:stream'

const LINE_FEED = 0x0a

const BATON = /^\{"baton":"([A-Za-z0-9+/]{64})"/

/** The response of a cursor was truncated before its first entry. */
export class TruncatedCursorError extends Error {
  /** Baton of the stream; null if not even that was received. */
  readonly baton: string | null

  constructor(begun: string, cause: unknown) {
    super('the response of the cursor was truncated', { cause })
    this.baton = BATON.exec(begun)?.[1] ?? null
  }
}

/** Waits until the response of a cursor continues after its first line. Rejects with a {@link TruncatedCursorError}. */
export async function awaitFirstEntry(response: Readable): Promise<Readable> {
  const chunks = (response as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  const begun: Buffer[] = []
  for (;;) {
    const next = await chunks.next().catch((error: unknown) => {
      throw new TruncatedCursorError(Buffer.concat(begun).toString('latin1'), error)
    })
    if (next.done === true) break
    begun.push(next.value)
    const all = Buffer.concat(begun)
    const lineEnd = all.indexOf(LINE_FEED)
    if (lineEnd !== -1 && lineEnd + 1 < all.length) break
  }
  return Readable.from(rejoin(begun, chunks), { objectMode: false })
}

async function* rejoin(begun: readonly Buffer[], rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* begun
    for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}
