import { TransportError } from '@batonsql/core'
import { describeCall } from './check-rows.ts'
import type { History } from './history.ts'
import type { Call } from './ledger.ts'
import type { Network } from './network.ts'
import type { Program } from './program.ts'
import { callMark, hasMark } from './statement-texts.ts'

/** Tolerance, because timers count whole milliseconds. */
const SLACK_MS = 10
/** Additional time for a call without its own time limit that shares a request, which has the latest deadline of its calls. */
const SHARED_MS = 2_010
const CLOSE_MS = 2_000
/** When the simulated time begins, for the client, which reads it before the simulation replaces the clock. */
const ORIGIN = performance.timeOrigin
/** A transaction holds the write lock for at most this time. */
const WINDOW_MS = 5_000

/** Checks that calls settled within their time limits, and at once when they were aborted. */
export function checkTimes(program: Program, network: Network, history: History): string[] {
  return program.ledger.calls.flatMap((call) => {
    const tookMs = call.settledAt - call.at
    const maxMs = getMaxMs(call, history)
    if (tookMs > maxMs) return [`${describeCall(call)}: took ${tookMs} ms, more than the maximum of ${maxMs}`]
    const isPlain = call.operation === 'execute' || call.operation === 'batch' || call.operation === 'health'
    // the handle of a transaction takes no signal
    const isTransactionEnd =
      (call.operation === 'commit' || call.operation === 'rollback') && call.scope.kind === 'stream'
    if ((isPlain || isTransactionEnd) && call.settledAt > call.abortedAt)
      return [`${describeCall(call)}: did not settle at once when it was aborted`]
    if (timedOutBeforeSending(call, network, history))
      return [`${describeCall(call)}: its time limit began while it was queued`]
    if (isPastLimit(call, program, history)) return [`${describeCall(call)}: its transaction had expired`]
    const isAcceptedLate = isPlain && call.state === 'ok' && call.scope.endedAt < call.turn
    return isAcceptedLate ? [`${describeCall(call)}: accepted by a handle that had ended`] : []
  })
}

/** Returns whether the first statement of a transaction timed out before it was sent. */
function timedOutBeforeSending(
  { error, scope, operation, id, sql }: Call,
  { requests }: Network,
  { clients, faults, server }: History,
): boolean {
  const { concurrency, token } = clients[scope.client] ?? {}
  // the time limit of a call includes detecting what the server supports
  if (server.isExecuteOnly || faults.some(({ value }) => value === 400)) return false
  const isFirst =
    scope.kind === 'transaction' && scope.calls[0]?.id === id && operation === 'execute' && !scope.isOrm
  if (!isFirst || concurrency !== undefined || token || !(error instanceof TransportError)) return false
  const hasTimedOut = error.code === 'TIMEOUT' && error.message.startsWith('no response')
  return hasTimedOut && sql.every(hasMark) && !requests.some(({ body }) => body.includes(callMark(id)))
}

/** Returns whether a transaction has accepted a call after it was idle beyond `transactionTimeoutMs`. */
function isPastLimit({ scope, at, id, state }: Call, { ledger }: Program, { clients }: History): boolean {
  const { kind, expiresAt } = scope.root
  const limitMs = clients[scope.client]?.transactionTimeoutMs ?? WINDOW_MS
  if (kind !== 'transaction' || expiresAt === null || state !== 'ok') return false
  const limit = expiresAt - ORIGIN - WINDOW_MS + limitMs
  const others = ledger.calls.filter((call) => call.scope.root === scope.root && call.id !== id)
  const idleSince = others.reduce(
    (latest, call) => (call.at <= at ? Math.max(latest, call.settledAt) : latest),
    limit,
  )
  return at - idleSince > SLACK_MS
}

/** Returns the maximum duration of a call, in ms. */
function getMaxMs({ operation, plan, scope }: Call, { clients }: History): number {
  const { requestTimeoutMs = 30_000, writeLockTimeoutMs = 60_000, coalesce } = clients[scope.client] ?? {}
  const callMs = plan.timeoutMs ?? requestTimeoutMs
  const slackMs = SLACK_MS + (coalesce ? (plan.timeoutMs === undefined ? SHARED_MS : 10) : 0)
  switch (operation) {
    case 'execute':
    case 'batch':
    case 'chain':
    case 'commit':
      // in a transaction, the time limit starts when the lock is acquired, and again after a savepoint
      return scope.kind === 'client' ? callMs + slackMs : writeLockTimeoutMs + 3 * callMs + slackMs
    case 'rollback':
      // it waits for a COMMIT or ROLLBACK in flight, and stops waiting for the write lock
      return scope.kind === 'stream' ? 2 * callMs + slackMs : Infinity
    case 'health':
      return callMs + slackMs
    case 'close':
      return ('drainMs' in plan ? Number(plan.drainMs) : 0) + CLOSE_MS + slackMs
    default:
      return Infinity
  }
}
