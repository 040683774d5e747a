import { Readable } from 'node:stream'
import type { ServiceRequest, ServiceResponse } from './service-request.ts'

/** Converts a request of the Fetch API. Its body and its signal are those of the original; an `https:` URL becomes the header of a proxy. */
export function fromRequest(request: Request): ServiceRequest {
  const { method, signal, headers, body } = request
  const url = new URL(request.url)
  const controller = new AbortController()
  if (signal.aborted) controller.abort(signal.reason)
  else signal.addEventListener('abort', () => controller.abort(signal.reason), { once: true })
  return {
    method,
    path: url.pathname,
    query: url.search,
    headers: {
      host: url.host,
      ...Object.fromEntries(headers),
      ...(url.protocol === 'https:' && { 'x-forwarded-proto': 'https' }),
    },
    body: body === null ? Readable.from([]) : Readable.fromWeb(body),
    remoteAddress: undefined,
    controller,
  }
}

/** Converts a response to a `Response` of the Fetch API. */
export function toResponse({ status, headers, body }: ServiceResponse, isHead = false): Response {
  const responseHeaders = new Headers()
  for (const [name, value] of Object.entries(headers)) responseHeaders.set(name, String(value))
  // a response with such a status has no body
  if (isHead || status === 204 || status === 304) {
    if (body instanceof Readable) body.destroy()
    return new Response(null, { status, headers: responseHeaders })
  }
  return new Response(
    body instanceof Readable ? toWebStream(body) : (body as string | Uint8Array<ArrayBuffer>),
    { status, headers: responseHeaders },
  )
}

/** Replaces `Readable.toWeb`, which throws an uncatchable error if a body is canceled while a chunk is pending. */
function toWebStream(body: Readable): ReadableStream<Uint8Array> {
  const parts = body.iterator()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = (await parts.next()) as IteratorResult<Uint8Array>
      if (done === true) controller.close()
      else controller.enqueue(value)
    },
    cancel() {
      body.destroy()
    },
  })
}
