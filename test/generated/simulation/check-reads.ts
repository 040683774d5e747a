import type { ResultSet } from '@batonsql/core'
import { describeCall } from './check-rows.ts'
import type { History } from './history.ts'
import type { Call, Scope } from './ledger.ts'
import type { Program } from './program.ts'

type Rows = readonly number[]

const isBatch = ({ operation }: Call): boolean => operation === 'batch' || operation === 'optimistic'

/** Returns the rows that each SELECT of a call returned; only the first ones if the loop over them ended early. */
function getReads(call: Call): { rows: Rows; isComplete: boolean }[] {
  const isRead = (index: number): boolean => call.sql[index]?.endsWith('select') === true
  if (call.state !== 'ok') return []
  if (call.operation === 'rows') {
    const isComplete = !('take' in call.plan)
    return isRead(0) ? [{ rows: call.value as Rows, isComplete }] : []
  }
  const results = call.operation === 'execute' ? [call.value] : isBatch(call) ? (call.value as unknown[]) : []
  return results.flatMap((result, index) =>
    isRead(index)
      ? [{ rows: (result as ResultSet<{ a: number }>).rows.map(({ a }) => a), isComplete: true }]
      : [],
  )
}

/**
 * Checks the rows of each read: it must return the durable ones, from the first up to some point, and then those that the
 * call's transaction wrote, including all rows acknowledged to the caller before.
 * @param durable the rows of the table at the end
 */
export function checkReads(program: Program, history: History, durable: Rows): string[] {
  return [
    ...findReads(program, history, durable),
    ...program.ledger.calls.flatMap((call) => findOutdatedRead(call, durable)),
  ]
}

/** Checks that an optimistic transaction wrote directly after the state that it had read. */
function findOutdatedRead(call: Call, durable: Rows): string[] {
  const tags = call.tags.filter((tag, index) => tag !== null && call.sql[index] !== 'child') as number[]
  const position = durable.indexOf(tags[0] ?? Number.NaN)
  // a proxy that sends a request twice makes the transaction take place twice
  const isRepeated = durable.lastIndexOf(tags[0] ?? Number.NaN) > position
  if (call.operation !== 'optimistic' || call.state !== 'ok' || call.seen === null) return []
  if (position < 0 || isRepeated || call.seen.join() === durable.slice(0, position).join()) return []
  return [
    `${describeCall(call)}: wrote after ${durable.slice(0, position).join()}, having read ${call.seen.join()}`,
  ]
}

function findReads(program: Program, history: History, durable: Rows): string[] {
  return program.ledger.calls.flatMap((call) =>
    getReads(call).flatMap(({ rows, isComplete }) => {
      const unexpected = findUnexpectedRows(call, rows, durable)
      if (unexpected.length > 0)
        return [`${describeCall(call)}: read rows that do not exist: ${unexpected.join()} in ${rows.join()}`]
      const missing = isComplete
        ? getVisibleRows(call, program, history).filter((tag) => !rows.includes(tag))
        : []
      return missing.length > 0
        ? [`${describeCall(call)}: did not read ${missing.join()}, which existed`]
        : []
    }),
  )
}

function findUnexpectedRows(call: Call, rows: Rows, durable: Rows): Rows {
  let durableCount = 0
  while (durableCount < rows.length && rows[durableCount] === durable[durableCount]) durableCount += 1
  const ownTags = new Set(getTags(call.scope.root))
  const newRows = rows.slice(durableCount)
  return isBatch(call)
    ? newRows.filter((tag) => !ownTags.has(tag) && !call.tags.includes(tag))
    : newRows.filter((tag) => !ownTags.has(tag))
}

const getTags = (scope: Scope): number[] =>
  scope.kind === 'client'
    ? []
    : scope.calls.flatMap((call) => [
        ...call.tags.filter((tag) => tag !== null),
        ...call.inner.flatMap(getTags),
      ])

/** Returns the rows that a call must see: they were acknowledged before, and not undone. */
function getVisibleRows(call: Call, program: Program, { server, clients, events = [] }: History): Rows {
  const { scope } = call
  const isStale =
    server.lagMs !== undefined && (clients[scope.client]?.readYourWrites === false || server.hasNoIndex)
  if (isStale || events.length > 0) return []
  const isBefore = (earlier: Call): boolean => earlier.state === 'ok' && earlier.settledTurn < call.turn
  const getWrittenRows = (calls: readonly Call[]): Rows =>
    calls
      .filter((earlier) => isBefore(earlier) && /^(execute|batch|optimistic|rows)$/.test(earlier.operation))
      .flatMap(({ tags, sql }) => tags.filter((tag, index) => tag !== null && sql[index] !== 'child'))
      .filter((tag) => tag !== null)
  if (scope.kind === 'client') return getWrittenRows((program.clientScopes[scope.client] as Scope).calls)
  // nothing is certain if part of the transaction may have been undone, or on a stream, whose transaction may have ended
  const isPlain = scope.calls.every(
    ({ operation, sql }) => !/^(undo|rollback|commit|begin)$/.test(operation) && !sql.some(isControl),
  )
  return isPlain && scope.kind !== 'stream' ? getWrittenRows(scope.calls) : []
}

const isControl = (sql: string): boolean => / p$|^(begin|commit|rollback|or rollback)$/.test(sql)
