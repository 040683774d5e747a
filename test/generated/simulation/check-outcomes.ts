import { DatabaseError, type ResultSet } from '@batonsql/core'
import { describeCall } from './check-rows.ts'
import type { History } from './history.ts'
import type { Call, Scope } from './ledger.ts'
import type { Network } from './network.ts'
import type { Program } from './program.ts'
import { callMark } from './statement-texts.ts'

/** Checks that results and errors are as precise as possible. */
export function checkOutcomes(program: Program, network: Network, history: History): string[] {
  const calls = program.ledger.calls.flatMap((call) => [
    ...findVagueOutcome(call, network),
    ...findWrongResult(call),
  ])
  return [...calls, ...program.ledger.scopes.flatMap((scope) => findFalseExpiry(scope, program, history))]
}

/** Reports an `unknown` outcome if no request was sent that could have run. */
function findVagueOutcome(call: Call, network: Network): string[] {
  const { error, operation, scope, tags } = call
  const isAlone = scope.kind === 'client' && (operation === 'execute' || operation === 'batch')
  if (!isAlone || !(error instanceof DatabaseError) || error.outcome === 'not_applied') return []
  if (tags.every((tag) => tag === null)) return []
  const sent = network.requests.filter(({ body }) => body.includes(callMark(call.id)))
  const mayHaveRun = sent.some(
    ({ fault, settledAt }) =>
      !(fault?.kind.startsWith('refused') && fault.value === 429) || settledAt >= call.settledAt,
  )
  return mayHaveRun
    ? []
    : [`${describeCall(call)}: its outcome is unknown, although nothing was sent: ${String(error)}`]
}

/** Checks the result of an INSERT. */
function findWrongResult({ state, operation, sql, value, ...call }: Call): string[] {
  if (
    state !== 'ok' ||
    operation !== 'execute' ||
    call.scope.isOrm ||
    (sql[0] !== 'insert' && sql[0] !== 'returning')
  )
    return []
  const { rowsAffected, lastInsertRowid, rows } = value as ResultSet
  const isCorrect =
    rowsAffected === 1 && lastInsertRowid !== null && rows.length === (sql[0] === 'insert' ? 0 : 1)
  const name = describeCall({ state, operation, sql, value, ...call })
  return isCorrect
    ? []
    : [`${name}: ${rowsAffected} rows, rowid ${lastInsertRowid}, ${rows.length} rows returned`]
}

/** Checks that a transaction that has only read does not expire: it cannot lose the lock. */
function findFalseExpiry(
  { id, kind, calls, expiresAt, parent }: Scope,
  program: Program,
  history: History,
): string[] {
  if (expiresAt === null || (kind !== 'stream' && kind !== 'transaction')) return []
  const call = program.ledger.calls.find(({ inner }) => inner.some((scope) => scope.id === id))
  const modes =
    kind === 'stream'
      ? calls.filter(({ operation }) => operation === 'begin').map(({ name }) => name)
      : [getMode(call)]
  const isReadOnly = calls.every(
    ({ operation, sql }) =>
      /^(execute|rows|begin|mark|undo|forget|close stream)$/.test(operation) &&
      sql.every((text) => text === 'select'),
  )
  const isReading = modes.length > 0 && modes.every((mode) => mode === 'deferred' || mode === 'readonly')
  const isWrong = isReadOnly && isReading && parent?.kind !== 'savepoint' && history.clients.length > 0
  return isWrong ? [`scope ${id}: only read, but expires at ${expiresAt}`] : []
}

const getMode = (call: Call | undefined): unknown => call && 'mode' in call.plan && call.plan.mode
