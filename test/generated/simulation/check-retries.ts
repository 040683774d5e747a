import { HttpError, TransportError } from '@batonsql/core'
import { describeCall } from './check-rows.ts'
import type { ClientPlan, History, Sql } from './history.ts'
import type { Call } from './ledger.ts'
import type { Network, ObservedRequest } from './network.ts'
import type { Program } from './program.ts'
import { callMark } from './statement-texts.ts'

const READS: ReadonlySet<Sql> = new Set([
  'select',
  'commented select',
  'missing table',
  'large',
  'unreadable',
])
const MAX_RETRIES = 2
/** How long after its beginning a call may be retried: the default time limit, less the longest delay before a retry. */
const LAST_RETRY_MS = 29_000

const CALL_MARK_PREFIX = '/* call '
/** Part of a statement whose result no server can encode. */
const UNREADABLE_SQL = "cast(x'ff' as text)"

/** Checks that every request that must be retried was retried, and no other. */
export function checkRetries(program: Program, network: Network, history: History): string[] {
  // a replica that is still behind causes another request, and at most two protocol versions are tried
  if (
    history.server.lagMs !== undefined ||
    history.server.isOld ||
    history.server.isExecuteOnly ||
    history.events?.length
  )
    return []
  return program.ledger.calls.flatMap((call) => {
    if (call.operation !== 'execute' || call.scope.isOrm || call.sql[0] === 'unparsable') return []
    const sent = network.requests.filter(
      ({ body, isRejected }) => !isRejected && body.includes(callMark(call.id)),
    )
    const problem =
      call.scope.kind === 'client'
        ? findProblemOutside(call, sent, history)
        : findProblemInside(call, sent, network, history)
    return problem === null ? [] : [`${describeCall(call)}: ${problem}`]
  })
}

function findProblemOutside(
  call: Call,
  sent: readonly ObservedRequest[],
  { clients }: History,
): string | null {
  const { maxRetries = MAX_RETRIES, requestTimeoutMs, token }: ClientPlan = clients[call.scope.client] ?? {}
  const isRead = READS.has(call.sql[0] as Sql)
  const extraRequests = isRead && sent.some(isDivided) ? 1 : 0
  if (sent.length > maxRetries + 1 + extraRequests) return `sent ${sent.length} times`
  const isRejected = ({ fault }: ObservedRequest): boolean =>
    fault?.kind.startsWith('refused') === true && fault.value === 429
  if (!isRead && sent.slice(0, -1).some((request) => !isRejected(request)))
    return 'a write that may have been executed was sent again'
  const hasEnoughTime =
    requestTimeoutMs === undefined &&
    call.plan.timeoutMs === undefined &&
    call.settledAt - call.at < LAST_RETRY_MS &&
    !token
  const wasRejected = call.error instanceof HttpError && call.error.status === 429
  const isTransient =
    wasRejected ||
    (isRead && call.error instanceof TransportError && call.error.code === 'NETWORK') ||
    (isRead && call.error instanceof HttpError && call.error.status >= 502 && call.error.status <= 504)
  return isTransient && hasEnoughTime && sent.length <= maxRetries
    ? `not retried after ${sent.length} requests`
    : null
}

/**
 * Returns whether reads shared a request that may have failed because of one of their results; each is then sent again
 * separately.
 */
function isDivided({ body, fault }: ObservedRequest): boolean {
  const isShared = body.split(CALL_MARK_PREFIX).length > 2
  const isTruncated = fault?.kind === 'truncated silently' || fault?.kind === 'foreign response'
  return isShared && (isTruncated || fault?.value === 500 || body.includes(UNREADABLE_SQL))
}

function findProblemInside(
  call: Call,
  sent: readonly ObservedRequest[],
  { faultCount }: Network,
  { tasks }: History,
): string | null {
  // a shared request that is rejected as a whole is sent again, call by call
  const isPlain = faultCount === 0 && !/"unparsable"|"large"/.test(JSON.stringify(tasks))
  return isPlain && sent.length > 1 ? `sent ${sent.length} times` : null
}
