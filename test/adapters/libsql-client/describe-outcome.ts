import { LibsqlBatchError, LibsqlError, type ResultSet } from '@libsql/client'

/** Describes a value as it appears to a program, including its type. */
function describeValue(value: unknown): unknown {
  if (typeof value === 'bigint') return `bigint ${value}`
  if (typeof value === 'number') return Object.is(value, -0) ? 'number -0' : `number ${value}`
  if (value instanceof ArrayBuffer) return `buffer ${Buffer.from(value).toString('hex')}`
  return value
}

/** Describes a row as it appears to a program: its own properties in order, with their attributes, and its prototype. */
function describeRow(row: object): unknown {
  const properties = Reflect.ownKeys(row).map((name) => {
    const { value, enumerable, writable, configurable } = Object.getOwnPropertyDescriptor(row, name) ?? {}
    return [name, describeValue(value), enumerable, writable, configurable]
  })
  return [Object.getPrototypeOf(row) === Object.prototype, properties]
}

function describeResult(result: ResultSet): unknown {
  return {
    columns: result.columns,
    columnTypes: result.columnTypes,
    rows: result.rows.map(describeRow),
    rowsAffected: result.rowsAffected,
    lastInsertRowid: describeValue(result.lastInsertRowid),
    json: JSON.stringify(result),
  }
}

/** Returns the message of an error without the code, which the original client repeats at the start, and without our hint. */
const getMessage = ({ message, code }: LibsqlError): string =>
  message
    .replaceAll(`${code}: `, '')
    .replace(/^SQLite error: /, '')
    .replace(/: use batch\(\), or executeMultiple\(\).*/, '')

function describeError(error: unknown): unknown {
  if (error instanceof LibsqlError) {
    const { code } = error
    const statementIndex = error instanceof LibsqlBatchError ? error.statementIndex : null
    return { code, statementIndex, message: getMessage(error), isError: error instanceof Error }
  }
  return error instanceof Error ? error.constructor.name : error
}

/** Describes the outcome of a call, so that it can be compared. */
export async function describeOutcome(call: () => Promise<unknown>): Promise<unknown> {
  try {
    const value = await call()
    if (Array.isArray(value)) return value.map((result) => describeResult(result as ResultSet))
    return value === undefined ? 'done' : describeResult(value as ResultSet)
  } catch (error) {
    return { error: describeError(error) }
  }
}
