import { TransportError } from '@batonsql/core'
import type { History } from './history.ts'
import type { Call } from './ledger.ts'
import type { Network } from './network.ts'
import { nameOf } from './oracle.ts'
import type { Program } from './program.ts'
import { hasMark, markOf } from './statement-texts.ts'

/** Timers count whole milliseconds. */
const SLACK_MS = 10
/** A call without its own time limit that shares a request has the latest deadline of the calls that share it. */
const SHARED_MS = 2_010
const CLOSE_MS = 2_000

/** Checks that calls settled within their time limits, and at once when they were aborted. */
export function checkTimes(program: Program, network: Network, history: History): string[] {
  return program.ledger.calls.flatMap((call) => {
    const tookMs = call.settledAt - call.at
    const mostMs = longest(call, history)
    if (tookMs > mostMs) return [`${nameOf(call)}: took ${tookMs} ms, which is more than ${mostMs}`]
    const isPlain = call.what === 'execute' || call.what === 'batch' || call.what === 'health'
    // the handle of a transaction takes no signal
    const isEnd = (call.what === 'commit' || call.what === 'rollback') && call.scope.kind === 'stream'
    if ((isPlain || isEnd) && call.settledAt > call.abortedAt)
      return [`${nameOf(call)}: did not settle at once when it was aborted`]
    if (isEarly(call, network, history)) return [`${nameOf(call)}: its time limit began before its turn`]
    const isLate = isPlain && call.state === 'ok' && call.scope.endedAt < call.turn
    return isLate ? [`${nameOf(call)}: accepted by a handle that had ended`] : []
  })
}

/** The first statement of a transaction that timed out before it was sent. */
function isEarly(
  { error, scope, what, id, sql }: Call,
  { seen }: Network,
  { clients, faults, server }: History,
): boolean {
  const { concurrency, token } = clients[scope.client] ?? {}
  // the time limit of a call includes detecting what the server supports
  if (server.isExecuteOnly || faults.some(({ value }) => value === 400)) return false
  const isFirst =
    scope.kind === 'transaction' && scope.calls[0]?.id === id && what === 'execute' && !scope.isOrm
  if (!isFirst || concurrency !== undefined || token || !(error instanceof TransportError)) return false
  const isLate = error.code === 'TIMEOUT' && error.message.startsWith('no response')
  return isLate && sql.every(hasMark) && !seen.some(({ body }) => body.includes(markOf(id)))
}

/** Maximum duration of a call, in ms. */
function longest({ what, plan, scope }: Call, { clients }: History): number {
  const { requestTimeoutMs = 30_000, writeLockTimeoutMs = 60_000, coalesce } = clients[scope.client] ?? {}
  const ownMs = plan.timeoutMs ?? requestTimeoutMs
  const slackMs = SLACK_MS + (coalesce ? (plan.timeoutMs === undefined ? SHARED_MS : 10) : 0)
  switch (what) {
    case 'execute':
    case 'batch':
    case 'chain':
    case 'commit':
      // in a transaction the time limit starts when the lock is acquired, and again after a savepoint
      return scope.kind === 'client' ? ownMs + slackMs : writeLockTimeoutMs + 3 * ownMs + slackMs
    case 'rollback':
      // it waits for a COMMIT or ROLLBACK in flight, and stops waiting for the write lock
      return scope.kind === 'stream' ? 2 * ownMs + slackMs : Infinity
    case 'health':
      return ownMs + slackMs
    case 'close':
      return ('drainMs' in plan ? Number(plan.drainMs) : 0) + CLOSE_MS + slackMs
    default:
      return Infinity
  }
}
