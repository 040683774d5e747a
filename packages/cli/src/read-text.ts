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
  for await (const part of checkParts(source, name)) yield decode(part)
  yield decode()
}

/** Returns the parts of a text, of which the first ones are joined until they contain a header: a pipe may have short parts. */
async function* checkParts(
  source: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  let start = Buffer.alloc(0)
  for await (const part of source) {
    const isChecked = start.length >= HEADER_BYTES
    if (!isChecked) start = Buffer.concat([start, part])
    if (isChecked) yield part
    else if (start.length >= HEADER_BYTES) yield checkHeader(start, name)
  }
  if (start.length < HEADER_BYTES) yield checkHeader(start, name)
}

/** Returns the beginning of a text. @throws Error if it is that of UTF-16 or of an SQLite file */
function checkHeader(start: Buffer, name: string): Buffer {
  const isUtf16 = /^(?:\xff\xfe|\xfe\xff)/.test(start.toString('latin1', 0, 2))
  if (isUtf16) throw new Error(`${name} is UTF-16 text: convert it to UTF-8 first, for example with iconv`)
  if (start.toString('latin1', 0, HEADER_BYTES) === 'SQLite format 3\u0000')
    throw new Error(
      `${name} is an SQLite file, not a text file: \`baton dev --open FILE.db\` serves a copy of it`,
    )
  return start
}

/** Reads a whole text. @throws Error as `readText` does */
export async function readWholeText(source: AsyncIterable<Uint8Array>, name: string): Promise<string> {
  const parts: string[] = []
  for await (const part of readText(source, name)) parts.push(part)
  return parts.join('')
}
