import { describeType, isPlainObject } from '@batonsql/options'
import { checkBlobLiterals } from '../sql/blob-literals.ts'
import { isControl, type StatementKind, setsForeignKeys, statementKind } from '../sql/statement-kind.ts'
import { encodeValue, type InValue } from './value.ts'

/** Positional values for `?` and `?NNN`, or named ones for `:a`, `@a` and `$a`; the prefix of a name is optional. */
export type InArgs = readonly InValue[] | Readonly<Record<string, InValue>>

/** One SQL statement: its text, or its text with arguments. */
export type InStatement = string | { readonly sql: string; readonly args?: InArgs | undefined }

/** A statement with its kind and its JSON on the wire. */
export interface EncodedStatement {
  readonly sql: string
  readonly kind: StatementKind
  readonly json: string
}

/**
 * Checks a statement and its arguments and encodes them as JSON. @param position of the statement in errors, if it is in a batch
 * @throws TypeError or RangeError naming the parameter, before anything is sent
 */
export function encodeStatement(statement: InStatement, args?: InArgs, position = ''): EncodedStatement {
  const sql = typeof statement === 'string' ? statement : statement?.sql
  if (typeof sql !== 'string')
    throw new TypeError(
      `${position}expected SQL as a string or { sql, args }, not ${describeType(statement)}`,
    )
  checkBlobLiterals(sql)
  if (!sql.isWellFormed()) throw new RangeError(`${position}the SQL has a lone surrogate`)
  // a string has none
  const { args: ownArgs } = statement as Exclude<InStatement, string>
  if (args !== undefined && ownArgs !== undefined)
    throw new TypeError(
      'the statement already has arguments: pass undefined instead of others, or the text and its arguments',
    )
  const values = args === undefined ? ownArgs : args
  const json = `{"sql":${JSON.stringify(sql)}${values === undefined ? '' : encodeArgs(values, position)}}`
  return { sql, kind: statementKind(sql), json }
}

function encodeArgs(args: InArgs, position: string): string {
  if (Array.isArray(args)) {
    let json = ''
    for (let index = 0; index < args.length; index++) {
      json += `${index === 0 ? '' : ','}${encodeValue(args[index], `${position}parameter ${index + 1}`)}`
    }
    return json && `,"args":[${json}]`
  }
  if (!isPlainObject(args))
    throw new TypeError(`${position}expected args as an array or a plain object, not ${describeType(args)}`)
  const namedArgs = args as Readonly<Record<string, InValue>>
  // names are sent unchanged: without its prefix, `@a` would bind `:a`, which libsql-server rejects
  const json = Object.keys(namedArgs).map((name) => {
    if (!name.isWellFormed())
      throw new RangeError(`${position}parameter ${name}: the name has a lone surrogate`)
    return `{"name":${JSON.stringify(name)},"value":${encodeValue(namedArgs[name] as InValue, `${position}parameter ${name}`)}}`
  })
  return json.length === 0 ? '' : `,"named_args":[${json.join()}]`
}

/** Checks and encodes the statements of a batch, which is its own transaction or part of one. */
export function encodeBatch(statements: readonly InStatement[]): EncodedStatement[] {
  if (!Array.isArray(statements))
    throw new TypeError(`expected an array of statements, not ${describeType(statements)}`)
  return Array.from(statements, (statement, index) => {
    const position = `statement ${index}, `
    const encoded = encodeStatement(statement, undefined, position)
    rejectControl(encoded, position)
    return encoded
  })
}

/** Rejects BEGIN, COMMIT, END and ROLLBACK where they would affect a different transaction than the author expects. */
export function rejectControl({ kind }: EncodedStatement, position = ''): void {
  if (isControl(kind))
    throw new TypeError(
      `${position}${kind.toUpperCase()} is not allowed here; use transaction(), or openStream(db) for adapters`,
    )
}

/** Rejects PRAGMA foreign_keys inside a transaction, where a rebuilt table would delete the rows that refer to it. */
export function rejectForeignKeys(statements: readonly EncodedStatement[]): void {
  if (statements.some(({ sql, kind }) => setsForeignKeys(sql, kind)))
    throw new TypeError(
      "PRAGMA foreign_keys has no effect inside a transaction: use batch(…, { foreignKeys: 'off' }) of the client, or run it before BEGIN on the same connection",
    )
}

/** Rejects SAVEPOINT outside of a transaction, where it would begin one that the client does not track. */
export function rejectSavepoint({ kind }: EncodedStatement): void {
  if (kind === 'savepoint')
    throw new TypeError('SAVEPOINT would begin a transaction; it is allowed only inside of one')
}
