import { openBody } from '#transport'
import type { Exchange, TransportBody, TransportRequest } from '../transport/transport.ts'
import type { Http } from './http.ts'

/**
 * Sends a request whose response is read as it arrives, and emits its `request` event when the body ends or is abandoned, or there is no
 * response.
 */
export function openObservedBody(http: Http, request: TransportRequest): Exchange<TransportBody> {
  const exchange = openBody(http.transport, request)
  const { events, clock } = http
  if (!events.isWatched) return exchange
  const reportRequest = events.request(request, clock)
  let status: number | null = null
  let responseBytes = 0
  let isReported = false
  const report = (): void => {
    if (!isReported) reportRequest(status, responseBytes)
    isReported = true
  }
  async function* countBytes(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for await (const part of parts) {
        responseBytes += part.byteLength
        yield part
      }
    } finally {
      report()
    }
  }
  const response = exchange.response.then(
    (head) => {
      status = head.status
      return { ...head, parts: countBytes(head.parts) }
    },
    (error: unknown) => {
      report()
      throw error
    },
  )
  return {
    response,
    get isSent() {
      return exchange.isSent
    },
    abort() {
      exchange.abort()
      report()
    },
  }
}
