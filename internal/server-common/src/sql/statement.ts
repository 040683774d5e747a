import { ResultError } from '../hrana/result-error.ts'
import { getPragmaAccess, type PragmaAccess } from './pragma-policy.ts'
import {
  getKeyword,
  type StatementRange,
  scanSql,
  splitStatements,
  type Token,
  unquoteIdentifier,
} from './scanner.ts'

/**
 * Kinds of statements, as needed for permissions, blocks, and the write lock: their verbs, and the permission that they need. `end`
 * includes SAVEPOINT and RELEASE, which need the same permission. The engine rejects those that are `unknown`.
 */
const KINDS = {
  query: { verbs: ['SELECT', 'VALUES'], access: 'read' },
  insert: { verbs: ['INSERT', 'REPLACE'], access: 'write' },
  change: { verbs: ['UPDATE', 'DELETE'], access: 'write' },
  schema: { verbs: ['CREATE', 'DROP', 'ALTER', 'REINDEX'], access: 'write' },
  begin: { verbs: ['BEGIN'], access: 'read' },
  end: { verbs: ['COMMIT', 'END', 'ROLLBACK', 'SAVEPOINT', 'RELEASE'], access: 'read' },
  // `getAccess` finds the pragmas that only read
  pragma: { verbs: ['PRAGMA'], access: 'write' },
  explain: { verbs: ['EXPLAIN'], access: 'read' },
  attach: { verbs: ['ATTACH'], access: 'attach' },
  detach: { verbs: ['DETACH'], access: 'none' },
  unknown: { verbs: [], access: 'read' },
} as const
type StatementKind = keyof typeof KINDS

const KIND_BY_VERB: ReadonlyMap<string, StatementKind> = new Map(
  Object.entries(KINDS).flatMap(([kind, { verbs }]) =>
    verbs.map((verb) => [verb, kind as StatementKind] as const),
  ),
)

/** A statement of SQL text, classified without the engine. */
export interface Statement {
  /** Without surrounding white space and comments. */
  readonly sql: string
  /**
   * The text that the engine compiles. So that names and positions match, it is the whole text if there is only one statement, and
   * that of the first of several includes what precedes it.
   */
  readonly source: string
  readonly kind: StatementKind
  /** The permission it needs. */
  readonly access: (typeof KINDS)[StatementKind]['access']
  /** Whether it must hold the write lock while it is executed. */
  readonly needsWriteLock: boolean
  /** First word in upper case. */
  readonly verb: string
  /** Kind of the statement that an EXPLAIN explains; null for other statements. */
  readonly explains: StatementKind | null
  /** Tokens, with offsets into `sql`. */
  readonly tokens: readonly Token[]
  /** Offset of the statement in the original text. */
  readonly offset: number
}

const BYTE_ORDER_MARK = 0xfeff
const MAIN_VERBS: ReadonlySet<string> = new Set(['SELECT', 'VALUES', 'INSERT', 'REPLACE', 'UPDATE', 'DELETE'])
const PROTECTED_TABLES: ReadonlySet<string> = new Set([
  '_litestream_seq',
  '_litestream_lock',
  'libsql_wasm_func_table',
])

/**
 * Parses SQL text into statements, leaving the syntax check to the engine. @throws ResultError for unterminated tokens, U+0000,
 * and statements that the service does not support
 */
export function parseStatements(text: string): Statement[] {
  const tokens = scanSql(text)
  const lastToken = tokens.at(-1)
  if (lastToken?.kind === 'unterminated') {
    const tokenName = text.startsWith('/*', lastToken.start) ? 'block comment' : 'literal'
    throw parseError(`non-terminated ${tokenName} at ${formatPosition(text, lastToken.start, 1)}`)
  }
  // the engine would treat this as the end of the text
  const nul = text.indexOf('\0')
  if (nul >= 0) throw parseError(`unrecognized token at ${formatPosition(text, nul, 1)}`)
  checkTokens(text, tokens)
  const ranges = splitStatements(text, tokens)
  return ranges.map((range, index) => {
    const statement = toStatement(text, range, { isFirst: index === 0, isOnly: ranges.length === 1 })
    if (!isSupported(statement.sql, statement.tokens)) throw parseError(`unsupported statement: ${text}`)
    return statement
  })
}

/** Rejects tokens that the engine accepts but the service's parser does not. */
function checkTokens(text: string, tokens: readonly Token[]): void {
  for (const [index, { kind, start }] of tokens.entries()) {
    const character = kind === 'symbol' ? text.charAt(start) : ''
    if (character !== '' && ':@#$'.includes(character)) {
      throw parseError(`bad variable name at ${formatPosition(text, start, 1)}`)
    }
    // the engine skips these like white space; the service's parser does not
    if (text.charCodeAt(start) === BYTE_ORDER_MARK || character === '\v') {
      throw parseError(`unrecognized token at ${formatPosition(text, start, 1)}`)
    }
    // `cast(x as )`
    if (character === ')' && getKeyword(text, tokens[index - 1]) === 'AS')
      throw parseError('unexpected parser error')
  }
}

/** Returns the first statement of the SQL text, even if the service does not support it. */
export function parseFirstStatement(text: string): Statement | null {
  const ranges = splitStatements(text, scanSql(text))
  const isOnly = ranges.length === 1
  return ranges[0] === undefined ? null : toStatement(text, ranges[0], { isFirst: true, isOnly })
}

function toStatement(
  text: string,
  range: StatementRange,
  { isFirst, isOnly }: { readonly isFirst: boolean; readonly isOnly: boolean },
): Statement {
  const offset = (range.tokens[0] as Token).start
  const lastEnd = (range.tokens.at(-1) as Token).end
  const sql = text.slice(offset, lastEnd)
  const tokens = range.tokens.map(({ kind, start, end }) => ({
    kind,
    start: start - offset,
    end: end - offset,
  }))
  const kind = classify(sql, tokens)
  return {
    sql,
    source: text.slice(isFirst ? 0 : offset, isOnly ? text.length : lastEnd),
    kind,
    access: getAccess(kind, sql, tokens),
    needsWriteLock: needsWriteLock(kind, sql, tokens),
    verb: getKeyword(sql, tokens[0]),
    explains: kind === 'explain' ? classify(sql, getExplainedTokens(sql, tokens)) : null,
    tokens,
    offset,
  }
}

function classify(sql: string, tokens: readonly Token[]): StatementKind {
  const verb = getKeyword(sql, tokens[0])
  return KIND_BY_VERB.get(verb === 'WITH' ? findMainVerb(sql, tokens) : verb) ?? 'unknown'
}

/** Returns the verb after common table expressions, which follows a parenthesis; `replace` may also name one. */
function findMainVerb(sql: string, tokens: readonly Token[]): string {
  let depth = 0
  for (const [index, token] of tokens.entries()) {
    if (token.kind === 'symbol') depth += getDepthChange(sql, token)
    else if (
      depth === 0 &&
      sql[tokens[index - 1]?.start ?? -1] === ')' &&
      MAIN_VERBS.has(getKeyword(sql, token))
    )
      return getKeyword(sql, token)
  }
  return ''
}

function getDepthChange(sql: string, token: Token): number {
  if (sql[token.start] === '(') return 1
  return sql[token.start] === ')' ? -1 : 0
}

/** Returns the tokens after EXPLAIN or EXPLAIN QUERY PLAN. */
function getExplainedTokens(sql: string, tokens: readonly Token[]): readonly Token[] {
  return tokens.slice(getKeyword(sql, tokens[1]) === 'QUERY' ? 3 : 1)
}

function getAccess(kind: StatementKind, sql: string, tokens: readonly Token[]): Statement['access'] {
  return kind === 'pragma' && parsePragma(sql, tokens).access === 'read' ? 'read' : KINDS[kind].access
}

function needsWriteLock(kind: StatementKind, sql: string, tokens: readonly Token[]): boolean {
  if (kind === 'begin') return ['IMMEDIATE', 'EXCLUSIVE'].includes(getKeyword(sql, tokens[1]))
  if (kind === 'pragma') {
    const { name, hasArgument } = parsePragma(sql, tokens)
    return name.toLowerCase() === 'user_version' && hasArgument
  }
  return kind === 'insert' || kind === 'change' || kind === 'schema'
}

function isSupported(sql: string, tokens: readonly Token[]): boolean {
  switch (getKeyword(sql, tokens[0])) {
    case 'VACUUM':
    case 'ANALYZE':
      return false
    case 'CREATE':
      return !isTemporary(sql, tokens)
    case 'ATTACH':
      return tokens[getKeyword(sql, tokens[1]) === 'DATABASE' ? 2 : 1]?.kind !== 'string'
    case 'PRAGMA':
      return parsePragma(sql, tokens).access !== 'rejected'
    case 'INSERT':
    case 'REPLACE':
    case 'UPDATE':
    case 'DELETE':
    case 'WITH':
      return !tokens.some((token) => PROTECTED_TABLES.has(unquoteIdentifier(sql, token)?.toLowerCase() ?? ''))
    default:
      return true
  }
}

function isTemporary(sql: string, tokens: readonly Token[]): boolean {
  if (['TEMP', 'TEMPORARY'].includes(getKeyword(sql, tokens[1]))) return true
  // after CREATE TABLE, VIEW, TRIGGER and INDEX, or after CREATE VIRTUAL TABLE and UNIQUE INDEX
  let nameIndex = ['TABLE', 'VIEW', 'TRIGGER', 'INDEX'].includes(getKeyword(sql, tokens[1])) ? 2 : 3
  if (getKeyword(sql, tokens[nameIndex]) === 'IF') nameIndex += 3
  const dot = tokens[nameIndex + 1]
  return (
    unquoteIdentifier(sql, tokens[nameIndex])?.toLowerCase() === 'temp' &&
    dot !== undefined &&
    sql[dot.start] === '.'
  )
}

function parsePragma(
  sql: string,
  tokens: readonly Token[],
): { readonly name: string; readonly hasArgument: boolean; readonly access: PragmaAccess } {
  const second = tokens[2]
  const nameIndex = second !== undefined && sql[second.start] === '.' ? 3 : 1
  const name = unquoteIdentifier(sql, tokens[nameIndex]) ?? ''
  const hasArgument = tokens.length > nameIndex + 1
  return { name, hasArgument, access: getPragmaAccess(name, hasArgument) }
}

/** Returns the error for SQL text that cannot be parsed, none of whose statements are executed. */
export function parseError(detail: string): ResultError {
  return new ResultError('SQL_PARSE_ERROR', `SQL string could not be parsed: ${detail}`)
}

/** Formats an offset as `(line, column)`, as the service does. @param shift added to the column */
export function formatPosition(text: string, offset: number, shift = 0): string {
  const { line, column } = getLineAndColumn(text, offset)
  return `(${line}, ${column + shift})`
}

/** Returns the line of an offset, counted from 1, and its column, counted in bytes from 0. */
export function getLineAndColumn(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset)
  const lineStart = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: Buffer.byteLength(before.slice(lineStart)) }
}
