import type { WriteRequest } from '../../internal/sqld-gateway/src/writes/stream-writes.ts'

/** Passes the response of a server to a request of the write gate. @param parts of its body */
export function endWrite(request: WriteRequest, parts: readonly string[], isCursor = false): void {
  if (!isCursor) request.onExecuted()
  for (const watcher of request.createWatchers()) {
    for (const part of parts) watcher.onPart?.(Buffer.from(part))
    watcher.onEnd?.(true)
  }
}
