/** Number of bytes at the beginning of an SQLite file that identify it. */
const HEADER_BYTES = 16

/**
 * Decodes a text that is read in parts: a file or standard input.
 * @param name what is read, for the error
 * @throws Error if the text is not UTF-8; its message says what the text seems to be
 */
export async function* readText(
  source: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let isFirst = true
  const decode = (part?: Uint8Array): string => {
    try {
      return decoder.decode(part, { stream: part !== undefined })
    } catch (cause) {
      throw new Error(
        `${name} is not UTF-8 text; it may be Latin-1 or Windows-1252: convert it first, for example with iconv`,
        { cause },
      )
    }
  }
  for await (const part of joinHeader(source)) {
    if (isFirst) checkHeader(part, name)
    isFirst = false
    yield decode(part)
  }
  yield decode()
}

/** Joins the first parts until they have the length of a header, or the source ends: a pipe may have short parts. */
async function* joinHeader(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  let header = Buffer.alloc(0)
  for await (const part of source) {
    if (header.length >= HEADER_BYTES) yield part
    else {
      header = Buffer.concat([header, part])
      if (header.length >= HEADER_BYTES) yield header
    }
  }
  if (header.length < HEADER_BYTES) yield header
}

/** Checks the beginning of a text. @throws Error if they are those of UTF-16 or of an SQLite file */
function checkHeader(bytes: Uint8Array, name: string): void {
  const [first, second] = bytes
  const isUtf16 = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
  if (isUtf16) throw new Error(`${name} is UTF-16 text: convert it to UTF-8 first, for example with iconv`)
  if (new TextDecoder('latin1').decode(bytes.subarray(0, HEADER_BYTES)) === 'SQLite format 3\u0000')
    throw new Error(
      `${name} is an SQLite file, not a text file: \`baton dev --open FILE.db\` serves a copy of it`,
    )
}

/** Reads a whole text. @throws Error as `readText` does */
export async function readWholeText(source: AsyncIterable<Uint8Array>, name: string): Promise<string> {
  const parts: string[] = []
  for await (const part of readText(source, name)) parts.push(part)
  return parts.join('')
}
