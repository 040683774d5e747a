import { Readable } from 'node:stream'

const LINE_FEED = 0x0a

/** Waits until a cursor's answer goes on behind its first line; rejects when the server breaks off before. */
export async function awaitFirstEntry(answer: Readable): Promise<Readable> {
  const chunks = (answer as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  const begun: Buffer[] = []
  for (;;) {
    const next = await chunks.next()
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
