import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { decodeCursorBody, decodePipelineBody } from '../embedded/request-decoder.ts'
import { readBytes, type ServiceResponse } from '../exchange.ts'
import { encodeCursorBody, encodePipelineBody } from './request-encoder.ts'
import { guardRequests, guardSteps } from './request-guard.ts'

/** What a client may learn from the server's own headers. */
const ANSWER_HEADERS = ['content-type', 'cache-control', 'server-timing'] as const

/** Reads a body strictly and writes it anew: the server's reader takes more than one form for the same thing. */
export function rebuildBody(
  path: string,
  text: string,
  mayWrite: boolean,
): { baton: string | null; text: string } {
  if (path === '/v3/cursor') {
    const body = decodeCursorBody(text)
    const guarded = { ...body, steps: guardSteps(body.steps, mayWrite) }
    return { baton: body.baton, text: encodeCursorBody(guarded) }
  }
  const body = decodePipelineBody(text)
  const guarded = { ...body, requests: guardRequests(body.requests, mayWrite) }
  return { baton: body.baton, text: encodePipelineBody(guarded) }
}

/** The server's answer as it is passed on; `body` is what came of the answer's own. */
export async function finish(answer: IncomingMessage, body: Readable): Promise<ServiceResponse> {
  const status = answer.statusCode ?? 502
  const headers: Record<string, string> = {}
  for (const name of ANSWER_HEADERS) {
    const value = answer.headers[name]
    if (value !== undefined) headers[name] = String(value)
  }
  if (status >= 400) return { status, headers, body: (await readBytes(answer)).toString('utf8') }
  return { status, headers, body }
}
