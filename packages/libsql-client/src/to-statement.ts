import { type InArgs, type InValue, RealValue } from '@batonsql/core'
import type { InArgs as LibsqlArgs, InStatement as LibsqlStatement } from '@libsql/core/api'

/** A statement in any form that the API accepts. */
export type AnyStatement = LibsqlStatement | readonly [string, LibsqlArgs?]

export interface BatonStatement {
  readonly sql: string
  readonly args: InArgs | undefined
}

/**
 * Converts a statement.
 * @param stringArgs the arguments, if the statement is a string
 * @throws TypeError for an argument of a type that the original rejects, such as undefined; core rejects other invalid values
 */
export function toStatement(statement: AnyStatement, stringArgs?: LibsqlArgs): BatonStatement {
  const [sql, args] = toPair(statement, stringArgs)
  return { sql, args: args ? toArgs(args) : undefined }
}

/** Converts the statements of a batch. @throws TypeError if they are not an array */
export function toStatements(statements: readonly AnyStatement[]): BatonStatement[] {
  if (!Array.isArray(statements)) throw new TypeError('expected an array of statements')
  return statements.map((statement) => toStatement(statement as AnyStatement))
}

function toPair(
  statement: AnyStatement,
  stringArgs: LibsqlArgs | undefined,
): readonly [sql: string, args?: LibsqlArgs | undefined] {
  if (typeof statement === 'string') return [statement, stringArgs]
  if (Array.isArray(statement)) return statement as readonly [string, LibsqlArgs?]
  // core rejects anything that is no statement
  const { sql, args } = Object(statement) as Exclude<LibsqlStatement, string>
  return [sql, args]
}

function toArgs(args: LibsqlArgs): InArgs {
  if (Array.isArray(args)) return args.map(toValue)
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, toValue(value)]))
}

/**
 * Converts an argument as the original does: numbers and dates to REAL, even whole ones, which the affinity of an INTEGER column converts
 * to integers; other objects to text.
 */
function toValue(value: unknown): InValue {
  if (typeof value === 'number') return new RealValue(value)
  if (value instanceof Date) return new RealValue(value.valueOf())
  if (value === null || value instanceof ArrayBuffer || value instanceof Uint8Array) return value
  // oxlint-disable-next-line typescript/no-base-to-string -- like the original
  if (typeof value === 'object') return String(value)
  if (typeof value === 'string' || typeof value === 'bigint' || typeof value === 'boolean') return value
  throw new TypeError('Unsupported type of value')
}
