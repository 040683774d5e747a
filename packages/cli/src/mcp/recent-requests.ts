import { findProblem, type Span, type WireModel, type WireRequest } from '@batonsql/inspector/wire-model'

/** Maximum length of a shown statement. */
const MAX_SQL = 300

export interface RequestFilter {
  readonly limit: number
  /** Only requests with this text in their database, path, statements, error or state; `waitedForWriteLockMs` for those that have waited. */
  readonly contains: string
}

/**
 * Lists the latest requests reported by the inspector, newest last: what they did, how long they took, and what they waited for.
 */
export function listRecentRequests(
  { model, since }: { readonly model: WireModel; readonly since: number },
  { limit, contains }: RequestFilter,
): object {
  const word = contains.toLowerCase()
  const matching = [...model.requests.values()].filter((request) => getText(request).includes(word))
  return {
    seenSince: formatTime(since),
    requests: matching.slice(-limit).map((request) => describeRequest(request, model)),
    writeLocks: [...model.holders.values()].map((span) => ({
      database: span.database,
      ...describeSpan(span),
      waiting: model.findWaiters(span.database).map(({ n }) => n),
    })),
  }
}

/** Returns the text that is searched, in lower case. It has more of a long statement than is shown: what the inspector keeps. */
function getText(request: WireRequest): string {
  const { database, path, statements, span, waitedUntil } = request
  const actions = statements.length === 0 ? [path] : statements.map(({ sql }) => sql)
  const wait = waitedUntil === null ? '' : 'waitedForWriteLockMs'
  return [database, ...actions, findProblem(request), span?.state, wait].join('\n').toLowerCase()
}

function describeRequest(request: WireRequest, model: WireModel): object {
  const { n, at, end, database, method, path, stream, statements, more, span, rows, waitedUntil } = request
  const problem = findProblem(request)
  return {
    request: n,
    at: formatTime(at),
    database,
    ...(statements.length === 0
      ? { path: `${method} ${path}` }
      : { statements: formatStatements(statements, more) }),
    tookMs: end === null ? null : round(end - at),
    ...(problem !== null ? { error: problem } : { rows }),
    ...(stream !== null && { stream }),
    ...(span !== null && { transaction: describeSpan(span) }),
    ...(waitedUntil !== null && {
      waitedForWriteLockMs: round(waitedUntil - at),
      heldBy: findHolders(model, database, at, waitedUntil)
        .filter((holder) => holder !== span)
        .map(describeSpan),
    }),
  }
}

const formatStatements = (statements: WireRequest['statements'], more: number): string[] => [
  ...statements.map(({ sql }) => (sql.length > MAX_SQL ? `${sql.slice(0, MAX_SQL)}…` : sql)),
  ...(more > 0 ? [`${more} more`] : []),
]

/** Returns the transactions that held the write lock of a database at any point between two times. */
const findHolders = ({ spans }: WireModel, database: string, from: number, to: number): Span[] =>
  spans.filter(
    (span) =>
      span.database === database && span.lockSince !== null && span.lockSince < to && (span.end ?? to) > from,
  )

const describeSpan = ({ id, stream, begin, end, lockSince, roundTrips, state }: Span): object => ({
  transaction: id,
  stream,
  state,
  began: formatTime(begin),
  requests: roundTrips,
  ...(end !== null && { tookMs: round(end - begin) }),
  ...(lockSince !== null && { heldWriteLockMs: end === null ? null : round(end - lockSince) }),
})

const formatTime = (at: number): string => new Date(at).toISOString()
const round = (ms: number): number => Math.round(ms * 10) / 10
