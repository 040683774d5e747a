import type { ResultSet } from '@batonsql/core'
import type { History } from './history.ts'
import type { Call, Scope } from './ledger.ts'
import { nameOf } from './oracle.ts'
import type { Program } from './program.ts'

type Rows = readonly number[]

/** The rows that each SELECT of a call saw; only the first ones if the loop over the rows was left early. */
function readsOf(call: Call): { rows: Rows; isWhole: boolean }[] {
  const isRead = (at: number): boolean => call.sql[at]?.endsWith('select') === true
  if (call.state !== 'ok') return []
  if (call.what === 'rows') {
    const isWhole = !('take' in call.plan)
    return isRead(0) ? [{ rows: call.value as Rows, isWhole }] : []
  }
  const results =
    call.what === 'execute' ? [call.value] : call.what === 'batch' ? (call.value as unknown[]) : []
  return results.flatMap((result, at) =>
    isRead(at) ? [{ rows: (result as ResultSet<{ a: number }>).rows.map(({ a }) => a), isWhole: true }] : [],
  )
}

/**
 * Checks the rows that were read: the durable ones, from the first up to some point, and then those that the call's
 * transaction wrote; they must include all rows acknowledged to the caller before.
 * @param durable the rows of the table at the end
 */
export function checkReads(program: Program, history: History, durable: Rows): string[] {
  return program.ledger.calls.flatMap((call) =>
    readsOf(call).flatMap(({ rows, isWhole }) => {
      const foreign = unexpectedRowsIn(call, rows, durable)
      if (foreign.length > 0)
        return [`${nameOf(call)}: saw what is not there: ${foreign.join()} in ${rows.join()}`]
      const missing = isWhole ? visibleTo(call, program, history).filter((tag) => !rows.includes(tag)) : []
      return missing.length > 0 ? [`${nameOf(call)}: did not see ${missing.join()}, which was there`] : []
    }),
  )
}

function unexpectedRowsIn(call: Call, rows: Rows, durable: Rows): Rows {
  let same = 0
  while (same < rows.length && rows[same] === durable[same]) same += 1
  const own = new Set(tagsIn(call.scope.root))
  const rest = rows.slice(same)
  return call.what === 'batch'
    ? rest.filter((tag) => !own.has(tag) && !call.tags.includes(tag))
    : rest.filter((tag) => !own.has(tag))
}

const tagsIn = (scope: Scope): number[] =>
  scope.kind === 'client'
    ? []
    : scope.calls.flatMap((call) => [
        ...call.tags.filter((tag) => tag !== null),
        ...call.inner.flatMap(tagsIn),
      ])

/** The rows that a call must see: they were acknowledged before, and not undone. */
function visibleTo(call: Call, program: Program, { server, clients, events = [] }: History): Rows {
  const { scope } = call
  const isStale =
    server.lagMs !== undefined && (clients[scope.client]?.readYourWrites === false || server.hasNoIndex)
  if (isStale || events.length > 0) return []
  const isBefore = (other: Call): boolean => other.state === 'ok' && other.settledTurn < call.turn
  const written = (calls: readonly Call[]): Rows =>
    calls
      .filter((other) => isBefore(other) && /^(execute|batch|rows)$/.test(other.what))
      .flatMap(({ tags, sql }) => tags.filter((tag, at) => tag !== null && sql[at] !== 'child'))
      .filter((tag) => tag !== null)
  if (scope.kind === 'client') return written((program.clientScopes[scope.client] as Scope).calls)
  // omits calls that undo a part, and calls after the end of a stream's transaction
  const isPlain = scope.calls.every(
    ({ what, sql }) => !/^(undo|rollback|commit|begin)$/.test(what) && !sql.some(isControl),
  )
  return isPlain && scope.kind !== 'stream' ? written(scope.calls) : []
}

const isControl = (sql: string): boolean => / p$|^(begin|commit|rollback|or rollback)$/.test(sql)
