import type { PipelineRequest, SqlReference } from '@batonsql/server-common/hrana'
import { memoize, scanSql, splitStatements } from '@batonsql/server-common/sql'
import { isHarmlessToPrepare } from './is-harmless-to-prepare.ts'
import { type Pragma, READ_ONLY_PRAGMA, readPragma } from './pragma.ts'
import { type SqlToken, splitTokens, tokenizeSql } from './sql-tokens.ts'

/** The effect of statements on the write lock and the transaction of their stream, if all of them are executed. */
export interface WriteEffect {
  /** Whether one of them may acquire the write lock. */
  readonly mayWrite: boolean
  /** Whether one of them begins a transaction. */
  readonly beginsTransaction: boolean
  /** Whether one of them ends a transaction, and no later one begins another. */
  readonly endsTransaction: boolean
  /** Whether one of them may commit a transaction that is already open. */
  readonly mayCommit: boolean
}

/** The effect of a request that is read-only or has no statements. */
export const NO_EFFECT: WriteEffect = {
  mayWrite: false,
  beginsTransaction: false,
  endsTransaction: false,
  mayCommit: false,
}
const ANY_EFFECT: WriteEffect = {
  mayWrite: true,
  beginsTransaction: true,
  endsTransaction: false,
  mayCommit: true,
}
const WRITES: WriteEffect = { ...NO_EFFECT, mayWrite: true }
const BEGINS: WriteEffect = { ...NO_EFFECT, beginsTransaction: true }
const COMMITS: WriteEffect = { ...NO_EFFECT, endsTransaction: true, mayCommit: true }
const ROLLS_BACK: WriteEffect = { ...NO_EFFECT, endsTransaction: true }
/** RELEASE commits if its savepoint began the transaction, which its text does not show. */
const RELEASES: WriteEffect = { ...NO_EFFECT, mayCommit: true }

/** Matches single statements without a leading comment, so that most SQL need not be tokenized. */
const SINGLE_READ = /^\s*(?:select|values)\b[^;]*$/i
const SINGLE_WRITE = /^\s*(?:insert|update|delete|replace)\b[^;]*$/i
const CHANGES = /^(?:insert|update|delete|replace)$/i
/** A function of full-text search that writes even in a SELECT. */
const OPTIMIZE = /optimize/i
/** Pragmas that read the header of the file, or concern only the connection. */
const HARMLESS_PRAGMA =
  /^(?:foreign_keys|defer_foreign_keys|encoding|data_version|page_count|page_size|freelist_count)$/i
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
      return request.sql === null ? getReferenceEffect(request, stored) : getPreparationEffect(request.sql)
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
  if (SINGLE_READ.test(sql) && !OPTIMIZE.test(sql)) return NO_EFFECT
  if (SINGLE_WRITE.test(sql)) return WRITES
  // unlike `splitTokens`, this keeps triggers whole: the END of a trigger body does not end a transaction
  const statements = splitStatements(sql, scanSql(sql)).map(({ tokens }) => tokenizeSql(sql, tokens))
  if (statements.some(({ isAmbiguous }) => isAmbiguous)) return ANY_EFFECT
  return joinEffects(statements.map(({ tokens }) => getStatementEffect(tokens)))
})

const getPreparationEffect = memoize((sql): WriteEffect => {
  if (SINGLE_READ.test(sql)) return NO_EFFECT
  const { tokens, isAmbiguous } = tokenizeSql(sql)
  const isHarmless = splitTokens(tokens).every(isHarmlessToPrepare)
  return isHarmless && !isAmbiguous ? NO_EFFECT : WRITES
})

function joinEffects(effects: readonly WriteEffect[]): WriteEffect {
  let { mayWrite, beginsTransaction, endsTransaction, mayCommit } = NO_EFFECT
  for (const effect of effects) {
    mayWrite ||= effect.mayWrite
    beginsTransaction ||= effect.beginsTransaction
    mayCommit ||= effect.mayCommit
    if (effect.beginsTransaction || effect.endsTransaction) endsTransaction = effect.endsTransaction
  }
  return { mayWrite, beginsTransaction, endsTransaction, mayCommit }
}

/** Returns the effect of a statement; an unknown statement may write. */
function getStatementEffect(statement: readonly SqlToken[]): WriteEffect {
  const [first, second] = statement
  const verb = first?.kind === 'word' ? first.text.toLowerCase() : ''
  const has = (pattern: RegExp): boolean =>
    statement.some(({ kind, text }) => kind === 'word' && pattern.test(text))
  const mayOptimize = statement.some(({ text }) => OPTIMIZE.test(text))
  switch (verb) {
    case 'select':
    case 'values':
      return mayOptimize ? WRITES : NO_EFFECT
    case 'with':
      return mayOptimize || hasChange(statement) ? WRITES : NO_EFFECT
    case 'explain':
      return isHarmlessToPrepare(statement) ? NO_EFFECT : WRITES
    case 'pragma':
      return isReadOnlyPragma(readPragma(statement)) ? NO_EFFECT : WRITES
    case 'attach':
    case 'detach':
      return NO_EFFECT
    case 'begin':
      return { ...BEGINS, mayWrite: ACQUIRES_WRITE_LOCK.test(second?.text ?? '') }
    case 'savepoint':
      return BEGINS
    case 'release':
      return RELEASES
    case 'rollback':
      // ROLLBACK TO a savepoint leaves the transaction open
      return has(/^to$/i) ? NO_EFFECT : ROLLS_BACK
    case 'commit':
    case 'end':
      return COMMITS
    default:
      return WRITES
  }
}

/** Whether common table expressions are followed by a write. After `)`, `replace` is neither a function nor a table name. */
function hasChange(statement: readonly SqlToken[]): boolean {
  return statement.some(
    ({ kind, text }, index) => kind === 'word' && CHANGES.test(text) && statement[index - 1]?.text === ')',
  )
}

function isReadOnlyPragma({ name }: Pragma): boolean {
  return READ_ONLY_PRAGMA.test(name) || HARMLESS_PRAGMA.test(name)
}
