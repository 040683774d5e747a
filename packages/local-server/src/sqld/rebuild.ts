import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { decodeCursorBody, decodePipelineBody } from '../embedded/request-decoder.ts'
import { readBytes, type ServiceResponse } from '../exchange.ts'
import { encodeCursorBody, encodePipelineBody } from './request-encoder.ts'
import { attachesIn, attachesInSteps, guardRequests, guardSteps, type Sender } from './request-guard.ts'

/** What a client may learn from the server's own headers. */
const ANSWER_HEADERS = ['content-type', 'cache-control', 'server-timing'] as const

/** A body in the one form that everybody reads alike. */
export interface RebuiltBody {
  readonly baton: string | null
  readonly text: string
  /** Whether its stream has another database attached from now on. */
  readonly hasAttached: boolean
}

/**
 * Reads a body strictly and writes it anew: the server's reader takes more than one form for the same thing.
 * @param hadAttached whether the stream of a baton has another database attached
 */
export function rebuildBody(
  path: string,
  text: string,
  mayWrite: boolean,
  hadAttached: (baton: string) => boolean,
): RebuiltBody {
  if (path === '/v3/cursor') {
    const body = decodeCursorBody(text)
    const { baton, steps } = body
    const sender = senderOf(mayWrite, baton, hadAttached, attachesInSteps(steps))
    const guarded = { ...body, steps: guardSteps(steps, sender) }
    return { baton, text: encodeCursorBody(guarded), hasAttached: sender.attach === 'attached' }
  }
  const body = decodePipelineBody(text)
  const { baton, requests } = body
  const sender = senderOf(mayWrite, baton, hadAttached, attachesIn(requests))
  const guarded = { ...body, requests: guardRequests(requests, sender) }
  return { baton, text: encodePipelineBody(guarded), hasAttached: sender.attach === 'attached' }
}

function senderOf(
  mayWrite: boolean,
  baton: string | null,
  hadAttached: (baton: string) => boolean,
  attaches: boolean,
): Sender {
  if (baton !== null && hadAttached(baton)) return { mayWrite, attach: 'attached' }
  if (!attaches) return { mayWrite }
  return { mayWrite, attach: baton === null ? 'attached' : 'late' }
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
