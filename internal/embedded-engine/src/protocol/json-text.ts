/** JSON text, in several parts if it is long. Output of the engine is kept as bytes, because decoding takes time. */
export type JsonText = string | readonly JsonPiece[]

type JsonPiece = string | Uint8Array<ArrayBuffer>

/** Concatenates texts. If all of them are strings, the result is a string. */
export function concat(...texts: readonly JsonText[]): JsonText {
  let result = ''
  for (const text of texts) {
    if (typeof text !== 'string') return concatPieces(texts.flat())
    result += text
  }
  return result
}

function concatPieces(input: readonly JsonPiece[]): JsonText {
  const pieces: JsonPiece[] = []
  for (const piece of input) {
    const last = pieces.at(-1)
    if (typeof piece === 'string' && typeof last === 'string') pieces[pieces.length - 1] = last + piece
    else pieces.push(piece)
  }
  return pieces
}

/** Joins JSON texts with commas. */
export function join(texts: readonly JsonText[]): JsonText {
  let result: JsonText = texts[0] ?? ''
  for (const text of texts.slice(1)) result = concat(result, ',', text)
  return result
}

/** Returns the bytes of long text, which can be transferred to another thread. */
export function getBuffers(text: JsonText): ArrayBuffer[] {
  if (typeof text === 'string') return []
  return text.flatMap((piece) => (typeof piece === 'string' ? [] : [piece.buffer]))
}

export function toBytes(text: JsonText): Buffer[] {
  return [text]
    .flat()
    .map((piece) =>
      typeof piece === 'string'
        ? Buffer.from(piece)
        : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength),
    )
}

export function toText(text: JsonText): string {
  return typeof text === 'string' ? text : Buffer.concat(toBytes(text)).toString('utf8')
}
