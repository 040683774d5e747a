import { Readable } from 'node:stream'

const LINE_FEED = 0x0a

const BATON = /^\{"baton":"([A-Za-z0-9+/]{64})"/

/** A cursor's answer was broken off before its first entry. */
export class BrokenOffError extends Error {
  /** Of the stream that is left behind; null when not even that came. */
  readonly baton: string | null

  constructor(begun: string, cause: unknown) {
    super('the cursor was broken off', { cause })
    this.baton = BATON.exec(begun)?.[1] ?? null
  }
}

/** Waits until a cursor's answer goes on behind its first line. Rejects with a {@link BrokenOffError}. */
export async function awaitFirstEntry(answer: Readable): Promise<Readable> {
  const chunks = (answer as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  const begun: Buffer[] = []
  for (;;) {
    const next = await chunks.next().catch((error: unknown) => {
      throw new BrokenOffError(Buffer.concat(begun).toString('latin1'), error)
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
