import type { PipelineRequest, SqlReference } from '@batonsql/server-common/hrana'
import { memoize } from './memoize.ts'
import { type SqlToken, splitTokens, tokenizeSql } from './sql-tokens.ts'

/** The effect of statements on the write lock and the transaction of their stream, if all of them are executed. */
export interface WriteEffect {
  /** Whether one of them may acquire the write lock. */
  readonly mayWrite: boolean
  /** Whether one of them begins a transaction. */
  readonly beginsTransaction: boolean
  /** Whether the last of them that begins or ends a transaction ends it. */
  readonly endsTransaction: boolean
}

/** The effect of a request that is read-only or has no statements. */
export const NO_EFFECT: WriteEffect = { mayWrite: false, beginsTransaction: false, endsTransaction: false }
/** The effect of unknown SQL. */
const ANY_EFFECT: WriteEffect = { mayWrite: true, beginsTransaction: true, endsTransaction: false }
const WRITES: WriteEffect = { ...NO_EFFECT, mayWrite: true }
const BEGINS: WriteEffect = { ...NO_EFFECT, beginsTransaction: true }
const ENDS: WriteEffect = { ...NO_EFFECT, endsTransaction: true }

/** Matches single statements without a leading comment, so that most SQL need not be tokenized. */
const SINGLE_READ = /^\s*(?:select|values)\b[^;]*$/i
const SINGLE_WRITE = /^\s*(?:insert|update|delete|replace)\b[^;]*$/i
const READS = /^(?:select|values|explain|attach|detach|release)$/i
const CHANGES = /^(?:insert|update|delete|replace)$/i
const ACQUIRES_WRITE_LOCK = /^(?:immediate|exclusive|concurrent)$/i

/** The effects of the SQL that a client has stored on its stream, by `sql_id`. */
export type StoredEffects = Map<number, WriteEffect>

/** Maximum number of statements that the server stores for a stream. */
const MAX_STORED = 64

/** Returns the effect of the requests of a pipeline. @param stored effects of SQL stored on the stream; updated here */
export function getRequestsEffect(
  requests: readonly PipelineRequest[],
  stored: StoredEffects = new Map(),
): WriteEffect {
  return joinEffects(requests.map((request) => getRequestEffect(request, stored)))
}

function getRequestEffect(request: PipelineRequest, stored: StoredEffects): WriteEffect {
  switch (request.type) {
    case 'execute':
      return getReferenceEffect(request.statement, stored)
    case 'batch':
      return joinEffects(request.steps.map(({ statement }) => getReferenceEffect(statement, stored)))
    case 'sequence':
      return getReferenceEffect(request, stored)
    case 'store_sql':
      // the server rejects a number in use
      if (stored.size < MAX_STORED && !stored.has(request.sqlId))
        stored.set(request.sqlId, getTextEffect(request.sql))
      return NO_EFFECT
    case 'close_sql':
      stored.delete(request.sqlId)
      return NO_EFFECT
    case 'describe':
    case 'get_autocommit':
    case 'close':
      return NO_EFFECT
    default:
      return request satisfies never
  }
}

function getReferenceEffect({ sql, sqlId }: SqlReference, stored: StoredEffects): WriteEffect {
  if (sql !== null) return getTextEffect(sql)
  return (sqlId === null ? undefined : stored.get(sqlId)) ?? ANY_EFFECT
}

const getTextEffect = memoize((sql): WriteEffect => {
  if (SINGLE_READ.test(sql)) return NO_EFFECT
  if (SINGLE_WRITE.test(sql)) return WRITES
  return joinEffects(splitTokens(tokenizeSql(sql).tokens).map(getStatementEffect))
})

function joinEffects(effects: readonly WriteEffect[]): WriteEffect {
  let [mayWrite, beginsTransaction, endsTransaction] = [false, false, false]
  for (const effect of effects) {
    mayWrite ||= effect.mayWrite
    beginsTransaction ||= effect.beginsTransaction
    if (effect.beginsTransaction || effect.endsTransaction) endsTransaction = effect.endsTransaction
  }
  return { mayWrite, beginsTransaction, endsTransaction }
}

function getStatementEffect(statement: readonly SqlToken[]): WriteEffect {
  const [first, second] = statement
  const verb = first?.kind === 'word' ? first.text.toLowerCase() : ''
  if (READS.test(verb)) return NO_EFFECT
  const has = (pattern: RegExp): boolean =>
    statement.some(({ kind, text }) => kind === 'word' && pattern.test(text))
  switch (verb) {
    case 'with':
      return has(CHANGES) ? WRITES : NO_EFFECT
    case 'pragma':
      return has(/^user_version$/i) ? WRITES : NO_EFFECT
    case 'begin':
      return { ...BEGINS, mayWrite: ACQUIRES_WRITE_LOCK.test(second?.text ?? '') }
    case 'savepoint':
      return BEGINS
    case 'rollback':
      // ROLLBACK TO a savepoint leaves the transaction open
      return has(/^to$/i) ? NO_EFFECT : ENDS
    case 'commit':
    case 'end':
      return ENDS
    default:
      return WRITES
  }
}
