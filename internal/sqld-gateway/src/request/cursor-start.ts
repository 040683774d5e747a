const LINE_FEED = 0x0a

/** Whether the response to a cursor request continues after its first line. */
export function hasFirstEntry(received: Buffer): boolean {
  const lineEnd = received.indexOf(LINE_FEED)
  return lineEnd !== -1 && lineEnd + 1 < received.length
}
