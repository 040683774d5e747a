import {
  type CursorBody,
  decodeCursorBody,
  decodePipelineBody,
  encodeCursorBody,
  encodePipelineBody,
  type PipelineBody,
  type PipelineRequest,
} from '@batonsql/server-common/hrana'
import { estimateParsingBytes, MAX_TOKENS } from './parsing-estimate.ts'
import { attachesDatabase, type GuardContext, guardRequest } from './request-guard.ts'
import { getRequestsEffect, type StoredEffects, type WriteEffect } from './write-effect.ts'

export interface DecodedBody extends PipelineBody {
  /** Whether it is the body of a cursor: one batch. */
  readonly isCursor: boolean
  /** Estimated memory that the server takes to parse its SQL; 0 for a short body. */
  readonly parsingBytes: number
}

/** A request body in canonical form, which all parsers read the same way. */
export interface RebuiltBody {
  readonly text: string
  /** Whether its stream has another database attached after this request. */
  readonly hasAttached: boolean
  /** Returns its effect on the write lock and the transaction of its stream. @param stored effects of SQL stored on the stream */
  readonly getEffect: (stored: StoredEffects) => WriteEffect
}

export interface BodyRules extends Omit<GuardContext, 'attach'> {
  /** Whether the stream already has another database attached. */
  readonly hadAttached: boolean
}

/** Parses a body strictly. @throws JsonShapeError; PipelineFailure with status 413 for too much SQL */
export function decodeBody(path: string, text: string): DecodedBody {
  const isCursor = path === '/v3/cursor'
  const body = isCursor ? asPipeline(decodeCursorBody(text)) : decodePipelineBody(text)
  // A shorter body cannot have too many tokens. Its SQL counts as nothing: otherwise, `holdMoreMemory` would reject eight INSERTs of
  // this length at once, which several imports may send.
  const parsingBytes = text.length <= MAX_TOKENS ? 0 : estimateParsingBytes(body.requests)
  return { ...body, isCursor, parsingBytes }
}

/** Encodes a body again, with safe statements: the server's parser accepts several forms of the same request. */
export function rebuildBody({ baton, requests, isCursor }: DecodedBody, rules: BodyRules): RebuiltBody {
  const context = buildContext(rules, baton, attachesDatabase(requests))
  const guardedRequests = requests.map((request) => guardRequest(request, context))
  const [first] = guardedRequests
  return {
    text:
      isCursor && first !== undefined
        ? encodeCursorBody({ ...toBatch(first), baton })
        : encodePipelineBody({ baton, requests: guardedRequests }),
    hasAttached: context.attach === 'attached',
    getEffect: (stored) => getRequestsEffect(guardedRequests, stored),
  }
}

/** Returns the batch of a guarded cursor: one that must not run has become a single statement, which the server rejects. */
function toBatch(request: PipelineRequest): Omit<CursorBody, 'baton'> {
  if (request.type === 'batch') return request
  const { statement } = request as PipelineRequest & { readonly type: 'execute' }
  return { steps: [{ statement, condition: null }] }
}

function asPipeline({ baton, ...batch }: CursorBody): PipelineBody {
  return { baton, requests: [{ type: 'batch', ...batch }] }
}

function buildContext(
  { hadAttached, ...rules }: BodyRules,
  baton: string | null,
  attaches: boolean,
): GuardContext {
  if (hadAttached) return { ...rules, attach: 'attached' }
  if (!attaches) return rules
  return { ...rules, attach: baton === null ? 'attached' : 'not-first' }
}
