import { Readable } from 'node:stream'
import { type BodyWatcher, type OnDisconnect, StreamedBody } from './streamed-body.ts'

/** Reads a body completely, or until `check` returns an error for a part. It is then paused, but not destroyed. */
export function readBytes(
  body: Readable,
  check: (part: Buffer) => Error | null = () => null,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // its events may have been emitted; if not, the listeners are still needed: an `error` without one ends the process
    if (body.closed) reject(body.errored ?? new Error('the body was truncated'))
    const parts: Buffer[] = []
    const receive = (part: Buffer): void => {
      parts.push(part)
      const rejection = check(part)
      if (rejection === null) return
      parts.length = 0
      body.off('data', receive).pause()
      reject(rejection)
    }
    body.on('data', receive)
    body.once('end', () => {
      resolve(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts))
      // its listeners live as long as the body
      parts.length = 0
    })
    body.once('error', reject)
    body.once('close', () => {
      // checked first, because creating the error takes as long as reading a small body
      if (!body.readableEnded) reject(new Error('the body was truncated'))
    })
  })
}

/** Passes on a body while watchers observe it. @param onDisconnect for a body that is a stream */
export function watchBody<Body extends Buffer | Readable>(
  body: Body,
  watchers: readonly BodyWatcher[],
  onDisconnect: OnDisconnect = 'destroy',
): Body {
  if (body instanceof Readable) {
    const streamedBody = body instanceof StreamedBody ? body : toStreamedBody(body)
    streamedBody.watch(watchers, onDisconnect)
    return streamedBody as Readable as Body
  }
  for (const watcher of watchers) {
    watcher.onPart?.(body)
    watcher.onEnd?.(true)
  }
  return body
}

/**
 * Returns a function that receives the parts of a body, and calls `search` with each part and with the bytes around the start of
 * each part, so that no match is missed because the body is split. A match may be found twice.
 * @param maxMatchBytes at least the length of the longest match
 */
export function createPartSearch(
  search: (bytes: Buffer) => void,
  maxMatchBytes: number,
): (part: Buffer) => void {
  let tail: Buffer = Buffer.alloc(0)
  return (part) => {
    search(part)
    if (tail.length > 0) search(Buffer.concat([tail, part.subarray(0, maxMatchBytes)]))
    const end = part.length < maxMatchBytes ? Buffer.concat([tail, part]) : part
    tail = end.subarray(-maxMatchBytes)
  }
}

function toStreamedBody(source: Readable): StreamedBody {
  // the source starts flowing with the first read
  source.pause()
  const body = new StreamedBody(source)
  source.on('data', (part: Buffer) => body.receive(part))
  source.once('end', () => body.complete())
  source.once('error', (error) => body.fail(error))
  source.once('close', () => {
    if (!source.readableEnded) body.fail(new Error('the body was truncated'))
  })
  return body
}
