import { Readable } from 'node:stream'

/** Maximum size of a request body, in bytes; libsql-server has no such limit. */
const MAX_BODY_BYTES = 256 * 1_024 ** 2

/** The body of a request exceeds the maximum size. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError'
}

/** Reads a body completely. @throws BodyTooLargeError */
export function readBytes(body: Readable): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let size = 0
    body.on('data', (part: Buffer) => {
      size += part.length
      if (size <= MAX_BODY_BYTES) return void parts.push(part)
      body.destroy()
      reject(new BodyTooLargeError('the body of the request is too large'))
    })
    body.once('end', () => resolve(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)))
    body.once('error', reject)
    body.once('close', () => {
      // creating the error takes as long as reading a small body
      if (!body.readableEnded) reject(new Error('the body ended before it was complete'))
    })
  })
}

/** Looks at a body on its way to the client. */
export interface BodyWatcher {
  /** Called for each part, before it is passed on. */
  onPart(part: Buffer): void
  /** Called once, at the end. @param isComplete false if the body was truncated, or not read to its end */
  onEnd?(isComplete: boolean): void
}

/**
 * Passes a body on, and shows it to watchers.
 * @param whenLeft what happens to the body if the client no longer reads: it is destroyed, or read to its end
 */
export function watchBody<Body extends Buffer | Readable>(
  body: Body,
  watchers: readonly BodyWatcher[],
  whenLeft: 'destroy' | 'drain' = 'destroy',
): Body {
  if (body instanceof Readable) return watchStream(body, watchers, whenLeft) as Body
  for (const watcher of watchers) {
    watcher.onPart(body)
    watcher.onEnd?.(true)
  }
  return body
}

function watchStream(
  source: Readable,
  watchers: readonly BodyWatcher[],
  whenLeft: 'destroy' | 'drain',
): Readable {
  let isEnded = false
  const end = (isComplete: boolean): void => {
    if (isEnded) return
    isEnded = true
    for (const watcher of watchers) watcher.onEnd?.(isComplete)
  }
  // begins with the first read
  source.pause()
  const passedOn = new Readable({
    read: () => void source.resume(),
    destroy(error, done) {
      if (source.closed) return done(error)
      source.once('close', () => done(error))
      if (whenLeft === 'destroy') source.destroy()
      else source.resume()
    },
  })
  source.on('data', (part: Buffer) => {
    if (passedOn.destroyed) return
    for (const watcher of watchers) watcher.onPart(part)
    if (!passedOn.push(part)) source.pause()
  })
  source.once('end', () => {
    end(!passedOn.destroyed)
    passedOn.push(null)
  })
  source.once('error', (error) => passedOn.destroy(error))
  source.once('close', () => {
    if (!isEnded) passedOn.destroy()
    end(false)
  })
  return passedOn
}
