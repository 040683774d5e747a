import { DatabaseError, type ResultSet } from '@batonsql/core'
import type { History } from './history.ts'
import type { Call, Scope } from './ledger.ts'
import type { Network } from './network.ts'
import { nameOf } from './oracle.ts'
import type { Program } from './program.ts'
import { markOf } from './statement-texts.ts'

/** Checks that results and errors contain everything that is known. */
export function checkOutcomes(program: Program, network: Network, history: History): string[] {
  const calls = program.ledger.calls.flatMap((call) => [...vagueOutcome(call, network), ...wrongResult(call)])
  return [...calls, ...program.ledger.scopes.flatMap((scope) => falseExpiry(scope, program, history))]
}

/** Reports `unknown` outcomes if no request was sent that could have run. */
function vagueOutcome(call: Call, network: Network): string[] {
  const { error, what, scope, tags } = call
  const isAlone = scope.kind === 'client' && (what === 'execute' || what === 'batch')
  if (!isAlone || !(error instanceof DatabaseError) || error.outcome === 'not_applied') return []
  if (tags.every((tag) => tag === null)) return []
  const sent = network.seen.filter(({ body }) => body.includes(markOf(call.id)))
  const mayHaveRun = sent.some(
    ({ fault, respondedAt }) =>
      !(fault?.kind.startsWith('refused') && fault.value === 429) || respondedAt >= call.settledAt,
  )
  return mayHaveRun
    ? []
    : [`${nameOf(call)}: its outcome is unknown, but none of it was sent: ${String(error)}`]
}

/** The result of an INSERT. */
function wrongResult({ state, what, sql, value, ...call }: Call): string[] {
  if (
    state !== 'ok' ||
    what !== 'execute' ||
    call.scope.isOrm ||
    (sql[0] !== 'insert' && sql[0] !== 'returning')
  )
    return []
  const { rowsAffected, lastInsertRowid, rows } = value as ResultSet
  const isRight =
    rowsAffected === 1 && lastInsertRowid !== null && rows.length === (sql[0] === 'insert' ? 0 : 1)
  const name = nameOf({ state, what, sql, value, ...call })
  return isRight
    ? []
    : [`${name}: ${rowsAffected} rows, rowid ${lastInsertRowid}, ${rows.length} rows returned`]
}

/** A transaction that has only read cannot lose the lock. */
function falseExpiry(
  { id, kind, calls, expiresAt, parent }: Scope,
  program: Program,
  history: History,
): string[] {
  if (expiresAt === null || (kind !== 'stream' && kind !== 'transaction')) return []
  const call = program.ledger.calls.find(({ inner }) => inner.some((scope) => scope.id === id))
  const modes =
    kind === 'stream' ? calls.filter(({ what }) => what === 'begin').map(({ name }) => name) : [modeOf(call)]
  const isReadOnly = calls.every(
    ({ what, sql }) =>
      /^(execute|rows|begin|mark|undo|forget|close stream)$/.test(what) &&
      sql.every((each) => each === 'select'),
  )
  const isReading = modes.length > 0 && modes.every((mode) => mode === 'deferred' || mode === 'readonly')
  const isWrong = isReadOnly && isReading && parent?.kind !== 'savepoint' && history.clients.length > 0
  return isWrong ? [`scope ${id}: has only read, but expires at ${expiresAt}`] : []
}

const modeOf = (call: Call | undefined): unknown => call && 'mode' in call.plan && call.plan.mode
