/** JSON text, in several pieces if it is long. Output of the engine is kept as bytes, because decoding takes time. */
export type JsonText = string | readonly JsonPiece[]

/** Bytes have a buffer that no other piece shares, so that it can be transferred. */
type JsonPiece = string | Uint8Array<ArrayBuffer>

/** Concatenates texts. If all of them are strings, the result is a string. */
export const concat = (...texts: readonly JsonText[]): JsonText => concatAll(texts)

function concatAll(texts: readonly JsonText[]): JsonText {
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

/** Concatenates JSON texts, with commas between them. */
export const joinWithCommas = (texts: readonly JsonText[]): JsonText =>
  // not a spread: a batch may have more results than a call can have arguments
  concatAll(texts.flatMap((text, index) => (index === 0 ? [text] : [',', text])))

/** Returns the buffers of long text, which can be transferred to another thread. They may be longer than the text. */
export function getBuffers(text: JsonText): ArrayBuffer[] {
  if (typeof text === 'string') return []
  return text.flatMap((piece) => (typeof piece === 'string' ? [] : [piece.buffer]))
}

export function toBytes(text: JsonText): Buffer[] {
  const pieces = typeof text === 'string' ? [text] : text
  return pieces.map((piece) =>
    typeof piece === 'string'
      ? Buffer.from(piece)
      : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength),
  )
}

export function toText(text: JsonText): string {
  return typeof text === 'string' ? text : Buffer.concat(toBytes(text)).toString('utf8')
}
