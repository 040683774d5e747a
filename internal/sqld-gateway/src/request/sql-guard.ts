import { isHarmlessToPrepare } from './is-harmless-to-prepare.ts'
import { READ_ONLY_PRAGMA, readPragma } from './pragma.ts'
import { callsOnlyKnownFunctions, findUnknownCall } from './sql-calls.ts'
import {
  explainedStatement,
  isWord,
  type SqlToken,
  splitTokens,
  type TokenizedSql,
  tokenizeSql,
} from './sql-tokens.ts'

/** How SQL text is used, and by whom. */
export interface SqlUse {
  /** `describe` prepares without the server's own filter; stored SQL can be run and described. */
  readonly kind: 'run' | 'describe' | 'store'
  readonly mayWrite: boolean
  /** Whether a replica receives it, which prepares statements itself, in its own copy of the database. */
  readonly isReplica?: boolean
  /**
   * `attached`: the stream has another database attached, or attaches it in this request · `not-first`: the stream has executed
   * other requests before. The server crashes when it reads an attached database while holding the write lock.
   */
  readonly attach?: 'attached' | 'not-first'
}
/** Why SQL text must not reach the server. `permissions`: the sender may not do this; `rejected`: no sender may. */
export type SqlProblem =
  | { readonly type: 'permissions' }
  | { readonly type: 'rejected'; readonly name: string; readonly reason: string }

/** Functions and tables through which SQL can access files, other SQL, or the process, including those in other builds. */
const EXTERNAL_ACCESS =
  'readfile|writefile|fts3_tokenizer|sha3_query|fsdir|lsdir|zipfile|zipfile_cds|sqlar_(?:un)?compress|' +
  'fileio_\\w+|sqlite_dbpage|sqlite_log|sqlite_crypt|sqlite3mc_\\w+|pragma_optimize'
const EXTERNAL_ACCESS_ANYWHERE = new RegExp(`(?<![\\w$])(?:${EXTERNAL_ACCESS})(?![\\w$])`, 'i')
const EXTERNAL_ACCESS_EXACTLY = new RegExp(`^(?:${EXTERNAL_ACCESS})$`, 'i')
/**
 * Functions that crash the server or read unrelated memory. Calls that can be parsed are checked against the allowed functions
 * instead.
 */
const UNSAFE =
  'replicate|pad[lrc]|strfilter|(?:left|right)str|reverse|proper|charindex|difference|mode|median|(?:low|upp)er_quartile|' +
  'regexpi?|geopoly_debug|lsmode|vector_top_k'
/** SQL text that does not match needs no closer inspection. */
const SUSPICIOUS = new RegExp(`${EXTERNAL_ACCESS}|regexp|compress|index|explain|_shadow|vector_top_k`, 'i')
/** Matches unsafe names of tables and functions. */
const EXTERNAL_ACCESS_OR_OPTIMIZE = new RegExp(`${EXTERNAL_ACCESS}|optimize`, 'i')
const AMBIGUOUSLY_SUSPICIOUS = new RegExp(
  `${EXTERNAL_ACCESS}|${UNSAFE}|index|explain|_shadow|attach|begin`,
  'i',
)
const SUSPICIOUS_FOR_READERS = new RegExp(`${SUSPICIOUS.source}|optimize|immediate|exclusive`, 'i')
const REASON_EXTERNAL_ACCESS = 'SQL must not access files, the process or other SQL'
const REASON_UNKNOWN = 'the function is not known to be safe'
const REASON_REPLICA = 'a replica would execute it when preparing it'
const REASON_SHADOW = 'the server crashes when it reads data that it did not write itself'

/** Pragmas that senders with write permission may call with an argument. */
const WRITABLE_PRAGMAS = /^(?:defer_foreign_keys|foreign_keys|user_version)$/i
/** Statements allowed on a stream that has a database attached. */
const ALLOWED_WITH_ATTACHED =
  /^(?:select|values|with|pragma|begin|commit|end|rollback|savepoint|release|attach|detach)$/i
const ACQUIRES_WRITE_LOCK = /^(?:immediate|exclusive|concurrent)$/i
const PLAIN_NAME = /^[\p{L}_][\p{L}\p{N}_$]*$/u

/** Returns why the server must not execute the SQL text; null if it may. */
export function findRejection(sql: string, use: SqlUse): SqlProblem | null {
  const suspicious = use.mayWrite ? SUSPICIOUS : SUSPICIOUS_FOR_READERS
  const isPlain = use.kind === 'run' && use.attach === undefined && !suspicious.test(sql)
  return isPlain && callsOnlyKnownFunctions(sql) ? null : findRejectionInTokens(sql, tokenizeSql(sql), use)
}

/** Like {@link findRejection}, for tokens. Visits each token a bounded number of times. */
export function findRejectionInTokens(
  sql: string,
  { tokens, isAmbiguous }: TokenizedSql,
  use: SqlUse,
): SqlProblem | null {
  const name = EXTERNAL_ACCESS_OR_OPTIMIZE.test(sql) ? findExternalAccess(tokens, use) : null
  if (name !== null) return { type: 'rejected', name, reason: REASON_EXTERNAL_ACCESS }
  if (isAmbiguous && (AMBIGUOUSLY_SUSPICIOUS.test(sql) || use.kind !== 'run')) {
    return { type: 'rejected', name: 'this text', reason: 'parsers may read it differently' }
  }
  for (const statement of splitTokens(tokens)) {
    const rejection = findStatementRejection(statement, use)
    if (rejection !== null) return rejection
  }
  return null
}

function findExternalAccess(tokens: readonly SqlToken[], { mayWrite }: SqlUse): string | null {
  // modules receive the text of CREATE VIRTUAL TABLE and build SQL from the strings in it
  const isDefinition = tokens.some(({ kind, text }) => kind === 'word' && /^(?:create|alter)$/i.test(text))
  for (const [index, { kind, text }] of tokens.entries()) {
    if (kind === 'word' || (kind === 'string' && !isDefinition)) {
      // a string can name a table
      if (EXTERNAL_ACCESS_EXACTLY.test(text)) return text
    } else if (kind !== 'other') {
      const match = EXTERNAL_ACCESS_ANYWHERE.exec(text)
      if (match !== null) return match[0]
    }
    // an FTS3 command that writes even in a SELECT
    const isOptimize = /^optimize$/i.test(text) && (kind === 'word' || kind === 'name')
    if (isOptimize && (!mayWrite || isDefinition) && tokens[index + 1]?.text === '(') return text
  }
  return null
}

function findStatementRejection(statement: readonly SqlToken[], use: SqlUse): SqlProblem | null {
  const isExplained = isWord(statement[0], 'explain')
  const body = explainedStatement(statement)
  const index = findUnsafeIndexName(body)
  if (index !== null) {
    return { type: 'rejected', name: `the index name ${index}`, reason: 'the server would execute it as SQL' }
  }
  const attach = findAttachRejection(body, use)
  if (attach !== null) return attach
  const call = findUnknownCall(body)
  if (call !== null) return { type: 'rejected', name: call, reason: REASON_UNKNOWN }
  const shadow = findChangedShadow(body)
  if (shadow !== null) return { type: 'rejected', name: `a change to ${shadow}`, reason: REASON_SHADOW }
  const isPrepared = isExplained || use.kind !== 'run'
  if (!isPrepared) return null
  if (isWord(body[0], 'pragma')) return findPragmaRejection(body, use, isExplained)
  // stored SQL is checked again when it runs
  const isOnlyPrepared = isExplained || use.kind === 'describe'
  if (!isOnlyPrepared || isHarmlessToPrepare(statement)) return null
  if (!use.mayWrite) return { type: 'permissions' }
  return use.isReplica === true
    ? { type: 'rejected', name: body[0]?.text ?? '', reason: REASON_REPLICA }
    : null
}

/** Returns the name of a vector index that is not a plain name: the server builds SQL from it without quoting. */
function findUnsafeIndexName(statement: readonly SqlToken[]): string | null {
  if (!isWord(statement[0], 'create')) return null
  const keywordIndex = isWord(statement[1], 'unique') ? 2 : 1
  if (!isWord(statement[keywordIndex], 'index')) return null
  const isVector = statement.some(({ text }) => /^(?:libsql_vector_idx|using)$/i.test(text))
  for (const token of statement.slice(keywordIndex + 1)) {
    if (isWord(token, 'on')) return null
    const isQuoted = token.kind === 'name' || token.kind === 'string'
    if (!isQuoted || PLAIN_NAME.test(token.text)) continue
    if (isVector || /[;'"`]|--|\/\*/.test(token.text)) return token.text
  }
  return null
}

/** Whether SQL text attaches a database, or may do so. */
export function hasAttach(sql: string): boolean {
  if (!/attach/i.test(sql)) return false
  const { tokens, isAmbiguous } = tokenizeSql(sql)
  return (
    isAmbiguous || splitTokens(tokens).some((statement) => isWord(explainedStatement(statement)[0], 'attach'))
  )
}

function findAttachRejection([first, second]: readonly SqlToken[], { attach }: SqlUse): SqlProblem | null {
  if (attach === undefined) return null
  if (attach === 'not-first') {
    const reason = 'on this back end it must be in the first request of a stream'
    return isWord(first, 'attach') ? { type: 'rejected', name: 'ATTACH', reason } : null
  }
  const isAllowed = first?.kind === 'word' && ALLOWED_WITH_ATTACHED.test(first.text)
  if (isAllowed && !(isWord(first, 'begin') && ACQUIRES_WRITE_LOCK.test(second?.text ?? ''))) return null
  const reason = 'on this back end a stream with an attached database is read-only'
  return { type: 'rejected', name: first?.text ?? '', reason }
}

/**
 * Returns the shadow table of a vector index that a statement, or one in a trigger, would change. A plain INSERT is allowed,
 * because dumps contain it.
 */
function findChangedShadow(statement: readonly SqlToken[]): string | null {
  const isUpsert = statement.some((token) => isWord(token, 'conflict'))
  for (const [index, { kind, text }] of statement.entries()) {
    if (kind === 'other' || !/_shadow$/i.test(text)) continue
    const from = statement[index - 1]?.text === '.' ? index - 2 : index
    const words = statement.slice(Math.max(0, from - 4), from).map((token) => token.text.toLowerCase())
    const isInsert = /(?:^| )insert into$/.test(words.join(' ')) && !isUpsert
    const isChange = /(?:^| )(?:update(?: or \w+)?|delete from|into|alter table|rename to)$/.test(
      words.join(' '),
    )
    if (isChange && !isInsert) return text
  }
  return null
}

/** Checks a pragma: preparing one often executes it. */
function findPragmaRejection(
  statement: readonly SqlToken[],
  use: SqlUse,
  isExplained: boolean,
): SqlProblem | null {
  const { name, hasArgument } = readPragma(statement)
  if (!hasArgument || READ_ONLY_PRAGMA.test(name)) return null
  if (WRITABLE_PRAGMAS.test(name) && !isExplained) {
    return use.mayWrite || use.kind === 'store' ? null : { type: 'permissions' }
  }
  return { type: 'rejected', name: `PRAGMA ${name}`, reason: 'it takes effect when it is prepared' }
}
