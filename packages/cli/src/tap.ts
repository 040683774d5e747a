/** Passes on the parts of a stream, and calls `onPart` for each. */
export async function* tap(
  source: AsyncIterable<Uint8Array>,
  onPart: (part: Uint8Array) => unknown,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const part of source) {
    onPart(part)
    yield part
  }
}
