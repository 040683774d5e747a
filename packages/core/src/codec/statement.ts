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

const CONTROL = /^[\s;]*(begin|commit|end|rollback)\b(?:\s+transaction\b)?(\s+to\b)?/i
const COMMENTS = /--[^\n]*|\/\*[^]*?(?:\*\/|$)/g

/** The text without comments where they could hide a word that matters: most statements begin with one of their own. */
export const withoutComments = (sql: string): string =>
  /^[\s;]*(?:--|\/\*|rollback|release|savepoint)/i.test(sql) ? sql.replace(COMMENTS, ' ') : sql

/** Whether a statement begins or ends a transaction; null for all others, also for ROLLBACK TO a savepoint. */
export function transactionControl(sql: string): 'begin' | 'commit' | 'rollback' | null {
  const [, word, to] = CONTROL.exec(withoutComments(sql)) ?? []
  if (word === undefined || to !== undefined) return null
  return /^end/i.test(word) ? 'commit' : (word.toLowerCase() as 'begin')
}

/**
 * Whether a statement certainly changes nothing, so that it may run twice. Rather no than yes: a word such as DELETE, even
 * in quotes, makes a WITH a write.
 */
export function isReadOnly(sql: string): boolean {
  return /^[\s(]*(select|values|explain|with(?![^]*\b(insert|update|delete|replace)\b))\b/i.test(sql)
}

/**
 * Whether a statement leaves no trace on its connection, so that others may follow it there. Rather no than yes: a SAVEPOINT
 * would take those behind it into a transaction that nobody commits, a PRAGMA or a temporary table would change what they do.
 */
export const leavesNoTrace = (sql: string): boolean =>
  /^[\s(]*(select|values|with|insert|update|delete|replace)\b/i.test(withoutComments(sql))

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

/** SQL of our own as a statement. */
export const encodeSql = (sql: string): EncodedStatement => ({ sql, json: JSON.stringify({ sql }) })
