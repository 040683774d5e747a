import { getTransactionRange, type History, type Step } from './history.ts'
import type { Call } from './ledger.ts'
import type { Network } from './network.ts'

/** Matches histories in which a client may send more requests than the README states. */
const UNUSUAL_HISTORY =
  /"faults":\[\{|"events"|"abort|[tT]imeoutMs"|"unparsable"|"isOld"|"isExecuteOnly"|"hasNoCursor"|"lagMs"|"retry"|"on":|"large"|"unreadable"|"queueLimit"|"ms":\d{4}|"do":"close"|"do":"optimistic"|"token"/

/** Checks that a history without failures took no more requests than it should. */
export function checkRequests(network: Network, history: History, calls: readonly Call[]): string[] {
  if (UNUSUAL_HISTORY.test(JSON.stringify(history))) return []
  // a failure may have prevented other calls of the same tick
  const savedRequests = calls.every(({ state }) => state === 'ok')
    ? countSavedRequests(history.tasks.flatMap(({ steps }) => steps))
    : 0
  const maximum = calls.reduce((sum, call) => sum + getMaxRequests(call), 0) - savedRequests
  const count = network.requests.filter(({ isRejected }) => !isRejected).length
  return count > maximum ? [`${count} requests, although ${maximum} are sufficient`] : []
}

/** Returns the maximum number of requests that a call takes. */
function getMaxRequests({ operation, inner, plan, sql }: Call): number {
  switch (operation) {
    case 'execute':
    case 'batch':
    case 'chain':
    case 'commit':
    case 'rollback':
    case 'health':
    case 'close stream':
      return 1
    case 'script':
      return getMaxScriptRequests(sql.length, getTransactionRange(plan) ?? undefined)
    case 'rows':
      // inside a transaction, BEGIN or a savepoint before it takes a separate request
      return 2
    case 'transaction':
      return inner.length
    default:
      return 0
  }
}

/**
 * Returns the maximum number of requests of a script: one for each run of statements, one for BEGIN with the first statement, one
 * for COMMIT, and one for the close of the stream, which may be sent with COMMIT.
 */
function getMaxScriptRequests(length: number, [from, to]: readonly [number, number] = [0, 0]): number {
  const leadingRuns = from > 0 ? 1 : 0
  const transactionRequests = to > from ? 2 : 0
  const trailingRuns = to < length ? 1 : 0
  return (
    leadingRuns + transactionRequests + trailingRuns + (transactionRequests > 0 && trailingRuns === 0 ? 0 : 1)
  )
}

/** Counts the requests saved because calls made in the same tick in a transaction share one. */
function countSavedRequests(steps: readonly Step[], isInside = false): number {
  return steps.reduce((sum, step) => {
    if (step.do === 'transaction' || step.do === 'savepoint')
      return sum + countSavedRequests(step.steps, true)
    if (step.do !== 'together' || !isInside) return sum
    const isPlain = step.steps.every((inner) => inner.do === 'execute' && inner.sql === 'insert')
    return sum + (isPlain ? step.steps.length - 1 : 0)
  }, 0)
}
