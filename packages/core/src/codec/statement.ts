import { kindOf } from '../check-options.ts'
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

// Blanks and comments; one that is not ended goes to the end of the text. Each alternative ends in one way only, so that
// nothing is tried twice.
const BLANK = String.raw`\s|--[^\n]*(?:\n|$)|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/|$)`
const VERB = new RegExp(`^(?:[;(]|${BLANK})*([a-z]+)`, 'i')
const ROLLBACK_TO = new RegExp(`rollback\\b(?:${BLANK})*(?:transaction\\b(?:${BLANK})*)?to\\b`, 'i')

/** The first word of a statement, in lower case, behind blanks and comments. */
export const verbOf = (sql: string): string => VERB.exec(sql)?.[1]?.toLowerCase() ?? ''

/** A statement without the blanks and comments in front. */
export const trimStart = (sql: string): string =>
  sql.slice((VERB.exec(sql)?.[0].length ?? 0) - verbOf(sql).length)

/** Whether a statement begins or ends a transaction; null for all others, also for ROLLBACK TO a savepoint. */
export function transactionControl(sql: string): 'begin' | 'commit' | 'rollback' | null {
  const verb = verbOf(sql)
  if (verb === 'begin' || verb === 'commit') return verb
  if (verb === 'end') return 'commit'
  return verb === 'rollback' && !ROLLBACK_TO.test(sql) ? 'rollback' : null
}

/**
 * Whether a statement certainly changes nothing, so that it may run twice. Conservative: a word such as DELETE, also in
 * quotes, makes a WITH a write.
 */
export function isReadOnly(sql: string): boolean {
  const verb = verbOf(sql)
  if (verb === 'with') return !/\b(?:insert|update|delete|replace)\b/i.test(sql)
  return verb === 'select' || verb === 'values' || verb === 'explain'
}

const TRACELESS = new Set(['select', 'values', 'with', 'insert', 'update', 'delete', 'replace'])

/**
 * Whether a statement leaves no trace on its connection, so that others may follow it there. Conservative: a PRAGMA or a
 * temporary table would change what they do.
 */
export const leavesNoTrace = (sql: string): boolean => TRACELESS.has(verbOf(sql))

/** Whether a statement inserts rows. */
export const inserts = (sql: string): boolean =>
  /^(?:insert|replace|with)$/.test(verbOf(sql)) && /\b(?:insert(?:\s+or\s+\w+)?|replace)\s+into\b/i.test(sql)

/** Checks and writes the statements of a batch, which has its own transaction or is part of one. */
export function encodeBatch(statements: readonly InStatement[]): EncodedStatement[] {
  if (!Array.isArray(statements))
    throw new TypeError(`expected an array of statements, not ${kindOf(statements)}`)
  return statements.map((statement) => {
    const encoded = encodeStatement(statement)
    refuseControl(encoded.sql)
    return encoded
  })
}

/** Refuses BEGIN, COMMIT, END and ROLLBACK where they would act on another transaction than the author thinks of. */
export function refuseControl(sql: string): void {
  const control = transactionControl(sql)
  if (control) {
    throw new TypeError(
      `${control.toUpperCase()} cannot stand here; use transaction(), or openStream() for adapters`,
    )
  }
}

/** Refuses SAVEPOINT outside of a transaction, where it begins one that the client would not know of. */
export function refuseSavepoint(sql: string): void {
  if (verbOf(sql) === 'savepoint')
    throw new TypeError(
      'SAVEPOINT outside of a transaction begins one; use transaction() and its savepoint()',
    )
}

/** SQL of our own as a statement. */
export const encodeSql = (sql: string): EncodedStatement => ({ sql, json: JSON.stringify({ sql }) })
