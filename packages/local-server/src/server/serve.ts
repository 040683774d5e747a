import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { errorResponse, type ServiceResponse } from '@batonsql/server-common/http'
import { toErrorResponse } from './internal-errors.ts'
import type { Service } from './service.ts'

/** Handles a request of a socket, and sends the response. Never rejects: a request that fails gets an error, or loses its connection. */
export async function serve(
  service: Service,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { remoteAddress } = incoming.socket
  // the client has already reset the connection; a request without an address would count as one of this process
  if (remoteAddress === undefined) return void outgoing.destroy()
  const controller = new AbortController()
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) controller.abort()
  })
  try {
    const target = parseTarget(incoming)
    const response =
      target === null
        ? errorResponse(400, 'Invalid request target or host')
        : await service.handle({
            ...target,
            method: incoming.method ?? 'GET',
            headers: incoming.headers,
            body: incoming,
            remoteAddress,
            controller,
          })
    await respond(outgoing, response, incoming.method === 'HEAD')
  } catch (error) {
    if (outgoing.headersSent || outgoing.destroyed) outgoing.destroy()
    else {
      const report = (reference: string, details: string): void =>
        console.error(`request failed (reference ${reference}): ${details}`)
      const response = toErrorResponse(error, { controller, body: incoming }, report)
      await respond(outgoing, response, incoming.method === 'HEAD')
    }
  }
}

/** Parses the request target; returns null if it and the headers name different hosts. */
function parseTarget(incoming: IncomingMessage): { path: string; query: string } | null {
  if (hasSeveralHosts(incoming.rawHeaders)) return null
  const target = incoming.url ?? '/'
  // absolute form, which is meant for proxies but which every server must accept
  const absolute = /^https?:\/\/([^/?#]*)(.*)$/i.exec(target)
  if (absolute !== null && absolute[1]?.toLowerCase() !== incoming.headers.host?.toLowerCase()) return null
  const relative = absolute?.[2] ?? target
  const queryStart = relative.indexOf('?')
  const path = queryStart < 0 ? relative : relative.slice(0, queryStart)
  return { path: path === '' ? '/' : path, query: queryStart < 0 ? '' : relative.slice(queryStart) }
}

/** Sends a body until it ends or the client disconnects. Rejects if the body fails. */
function send(body: Readable, outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve, reject) => {
    body.once('error', reject)
    body.once('close', () => {
      if (!body.readableEnded) outgoing.destroy()
    })
    const stop = (): void => {
      body.destroy()
      resolve()
    }
    if (outgoing.destroyed) return stop()
    outgoing.once('close', stop)
    // writing a part fails if the client has just disconnected
    outgoing.on('error', reject)
    body.pipe(outgoing)
  })
}

/** Whether a request has more than one `Host` header. @param headers alternating names and values */
function hasSeveralHosts(headers: readonly string[]): boolean {
  let count = 0
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] as string
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1
  }
  return count > 1
}

async function respond(outgoing: ServerResponse, response: ServiceResponse, isHead: boolean): Promise<void> {
  const { status, headers, body } = response
  if (response.isLost) return void outgoing.destroy()
  if (!(body instanceof Readable)) {
    outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) })
    outgoing.end(isHead ? undefined : body)
    return
  }
  outgoing.writeHead(status, headers)
  outgoing.flushHeaders()
  if (isHead) {
    body.destroy()
    outgoing.end()
    return
  }
  await send(body, outgoing)
  if (outgoing.writableFinished) response.recycle?.()
}
