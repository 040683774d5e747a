import { encodeValue, type InValue } from './value.ts'

/** Positional values for `?` and `?NNN`, or named ones for `:a`, `@a` and `$a`; a name may carry its prefix or not. */
export type InArgs = readonly InValue[] | Readonly<Record<string, InValue>>

/** One SQL statement: its text, or its text with arguments. */
export type InStatement = string | { readonly sql: string; readonly args?: InArgs | undefined }

/** A statement as it travels: its text, and its JSON on the wire. */
export interface EncodedStatement {
  readonly sql: string
  readonly json: string
}

/**
 * Checks a statement and its arguments and writes them as JSON.
 * @throws TypeError or RangeError naming the parameter, before anything is sent
 */
export function encodeStatement(statement: InStatement, args?: InArgs): EncodedStatement {
  const sql = typeof statement === 'string' ? statement : statement?.sql
  if (typeof sql !== 'string') throw new TypeError('expected SQL as a string or as { sql, args }')
  if (!sql.isWellFormed()) throw new RangeError('the SQL text has a lone surrogate')
  const given = args ?? (typeof statement === 'string' ? undefined : statement.args)
  return { sql, json: `{"sql":${JSON.stringify(sql)}${given === undefined ? '' : encodeArgs(given)}}` }
}

function encodeArgs(args: InArgs): string {
  if (Array.isArray(args)) {
    let json = ''
    for (let at = 0; at < args.length; at++) {
      json += `${at === 0 ? '' : ','}${encodeValue(args[at], `parameter ${at + 1}`)}`
    }
    return json && `,"args":[${json}]`
  }
  if (typeof args !== 'object' || args === null || ArrayBuffer.isView(args)) {
    throw new TypeError('expected args as an array or as an object of named values')
  }
  const named = args as Readonly<Record<string, InValue>>
  const json = Object.keys(named).map(
    (name) =>
      `{"name":${JSON.stringify(name)},"value":${encodeValue(named[name] as InValue, `parameter ${name}`)}}`,
  )
  return json.length === 0 ? '' : `,"named_args":[${json.join()}]`
}

/** What a statement does to the transaction around it. */
export type TransactionControl = 'begin' | 'commit' | 'rollback' | 'savepoint' | 'release' | 'rollback_to'

const CONTROL: Readonly<Record<string, TransactionControl>> = {
  begin: 'begin',
  commit: 'commit',
  end: 'commit',
  rollback: 'rollback',
  savepoint: 'savepoint',
  release: 'release',
}

/** Tells whether a statement begins, ends or marks a point in a transaction; null for all others. */
export function transactionControl(sql: string): TransactionControl | null {
  const start = skipSpace(sql, 0)
  const word = wordAt(sql, start)
  if (!Object.hasOwn(CONTROL, word)) return null
  if (word === 'rollback') {
    let next = skipSpace(sql, start + word.length)
    if (wordAt(sql, next) === 'transaction') next = skipSpace(sql, next + 'transaction'.length)
    if (wordAt(sql, next) === 'to') return 'rollback_to'
  }
  return CONTROL[word] as TransactionControl
}

/** Position of the first character at or after `at` that is not white space, a semicolon or part of a comment. */
function skipSpace(sql: string, at: number): number {
  for (;;) {
    const char = sql.charCodeAt(at)
    if (char <= 0x20 || char === 0x3b || char === 0xfeff) at += 1
    else if (sql.startsWith('--', at)) at = endOf(sql, '\n', at)
    else if (sql.startsWith('/*', at)) at = endOf(sql, '*/', at + 2)
    else return at
  }
}

function endOf(sql: string, mark: string, from: number): number {
  const at = sql.indexOf(mark, from)
  return at < 0 ? sql.length : at + mark.length
}

function wordAt(sql: string, at: number): string {
  let end = at
  while ((sql.charCodeAt(end) | 0x20) >= 0x61 && (sql.charCodeAt(end) | 0x20) <= 0x7a) end += 1
  return sql.slice(at, end).toLowerCase()
}

/** Checks and writes the statements of a batch, which has its own transaction or is part of one. */
export function encodeBatch(statements: readonly InStatement[]): EncodedStatement[] {
  return statements.map((statement) => {
    const encoded = encodeStatement(statement)
    refuseControl(encoded.sql)
    return encoded
  })
}

/** Refuses BEGIN, COMMIT, END and ROLLBACK where they would act on another transaction than the author thinks of. */
export function refuseControl(sql: string): void {
  const control = transactionControl(sql)
  if (control === 'begin' || control === 'commit' || control === 'rollback') {
    throw new TypeError(
      `${control.toUpperCase()} cannot stand here; use transaction(), or openStream() for adapters`,
    )
  }
}

/** SQL of our own as a statement. */
export const encodeSql = (sql: string): EncodedStatement => ({ sql, json: JSON.stringify({ sql }) })
