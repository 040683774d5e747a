import type { WireResult, WireValue } from '../base/wire.ts'
import { failWhen } from '../client/failed-assertion.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import { type ScriptStatement, splitStatements } from '../sql/script.ts'

/** A read of an optimistic transaction, with its result as the server sent it. */
export interface RecordedRead {
  readonly statement: EncodedStatement
  readonly columnCount: number
  readonly rows: readonly (readonly WireValue[])[]
}

export function recordRead(statement: EncodedStatement, { cols, rows }: WireResult): RecordedRead {
  return { statement, columnCount: cols.length, rows: 'parse' in rows ? rows.parse() : rows }
}

/** Maximum number of cells that the checks of an attempt compare; the comparison holds the write lock, for about 50 µs a cell. */
export const MAX_COMPARED_CELLS = 10_000
/** Maximum number of parameters of a read. With those of the cells, they are fewer than SQLite's 32,766. */
const MAX_PARAMETERS = 20_000
/** Maximum number of columns of a read: SQLite's 2,000, less the one that numbers the rows. */
const MAX_COLUMNS = 1_999
/** Maximum length of the checks of an attempt as JSON, in characters. */
export const MAX_CHECK_LENGTH = 4_000_000

/**
 * Returns a statement that fails unless the read still has exactly the same rows in the same order, by type and bytes. The names of
 * columns are not compared. Neither JSON nor EXCEPT would do: JSON rounds reals, and EXCEPT follows collations.
 * @throws SyntaxError for a read that ends in an open comment; RangeError for one that has too many columns, or seems to have
 * too many parameters
 */
export function encodeReadCheck({ statement, columnCount, rows }: RecordedRead): EncodedStatement {
  if (columnCount > MAX_COLUMNS) throw new RangeError(`${columnCount} columns, more than ${MAX_COLUMNS}`)
  const [{ sql }] = splitStatements(statement.sql) as [ScriptStatement]
  const parameters = new Parameters(statement)
  // a common table expression is visible in the read
  let name = 'baton'
  while (statement.sql.toLowerCase().includes(name)) name += '_'
  const columns = Array.from({ length: columnCount }, (_, index) => `c${index}`)
  const read = `with ${name}(${columns.join()}) as (${sql}\n)`
  if (rows.length === 0)
    return parameters.encode(`${read} select ${failWhen(`exists (select 1 from ${name})`, 'conflict')}`)
  const cells = rows.map((row) => `(${row.map((cell) => parameters.add(cell)).join()})`).join()
  const isSame = allOf(columns.map((column, index) => compareColumn(column, rows, index)))
  const numbered = (table: string): string => `(select row_number() over () i, * from ${table})`
  const matches = `select count(*) from ${numbered(name)} a join ${numbered(`${name}_seen`)} b on a.i = b.i where ${isSame}`
  const isChanged = `(select count(*) from ${name}) <> ${rows.length} or (${matches}) <> ${rows.length}`
  return parameters.encode(
    `${read}, ${name}_seen(${columns.join()}) as (values ${cells}) select ${failWhen(isChanged, 'conflict')}`,
  )
}

/** Combines conditions in a balanced tree: SQLite limits the depth of expressions. */
function allOf(conditions: readonly string[]): string {
  if (conditions.length === 1) return conditions[0] as string
  const middle = conditions.length >> 1
  return `(${allOf(conditions.slice(0, middle))} and ${allOf(conditions.slice(middle))})`
}

function compareColumn(column: string, rows: readonly (readonly WireValue[])[], index: number): string {
  const [a, b] = [`+a.${column}`, `+b.${column}`]
  const isReal = `typeof(b.${column}) = 'real'`
  const reals = rows.flatMap((row) => {
    const cell = row[index]
    return cell?.type === 'float' ? Number(cell.value ?? Infinity) : []
  })
  // the server sends infinities as null, without their sign, so that the callback did not see it either
  const isInfinite = reals.some((real) => !Number.isFinite(real))
    ? ` or (${isReal} and abs(${a}) = 9e999 and abs(${b}) = 9e999)`
    : ''
  // 0.0 is -0.0 for every comparison
  const hasSameSign = reals.includes(0)
    ? ` and (not (${isReal} and ${b} = 0) or atan2(${a}, -1) = atan2(${b}, -1))`
    : ''
  return `(typeof(a.${column}) = typeof(b.${column}) and (${a} is ${b} collate binary${isInfinite})${hasSameSign})`
}

/** The parameters of a check: the parameters of the read, and the cells that it had. */
class Parameters {
  readonly #statement: EncodedStatement
  readonly #isNamed: boolean
  readonly #args: string[] = []
  readonly #ownCount: number
  #prefix: string
  #next: number

  constructor(statement: EncodedStatement) {
    const { sql, json } = statement
    this.#statement = statement
    const { args = [], named_args: namedArgs } = JSON.parse(json) as {
      args?: readonly unknown[]
      named_args?: readonly unknown[]
    }
    this.#isNamed = namedArgs !== undefined
    this.#prefix = ':baton'
    while (sql.includes(this.#prefix)) this.#prefix += '_'
    // numbers of the read that have no argument, as in quotes, are left out
    const numbers = Array.from(sql.matchAll(/\?(\d+)/g), ([, digits]) => Number(digits))
    const count = sql.match(/[?:@$#]/g)?.length ?? 0
    this.#next = this.#isNamed ? 0 : Math.max(args.length, count, ...numbers)
    if (this.#next > MAX_PARAMETERS)
      throw new RangeError(`parameter ?${this.#next}, more than ${MAX_PARAMETERS}`)
    this.#ownCount = args.length
  }

  /** Adds a cell. @returns the expression for it */
  add(cell: WireValue): string {
    if (cell.type === 'null') return 'null'
    if (cell.type === 'float' && !Number.isFinite(Number(cell.value ?? Infinity))) return '9e999'
    // the read's own parameters without an argument get NULL, as the cells come after them. Without a cell, there are no such arguments,
    // because a server would reject those that the statement does not use
    if (!this.#isNamed && this.#args.length === 0)
      for (let index = this.#ownCount; index < this.#next; index++) this.#args.push(NULL)
    this.#next += 1
    const value = encodeCell(cell)
    this.#args.push(this.#isNamed ? `{"name":"${this.#prefix}${this.#next}","value":${value}}` : value)
    return this.#isNamed ? `${this.#prefix}${this.#next}` : `?${this.#next}`
  }

  encode(sql: string): EncodedStatement {
    const text = JSON.stringify(this.#statement.sql)
    // the text of the arguments is kept: JSON.parse and JSON.stringify would lose the sign of -0
    const ownArgs = this.#statement.json
      .slice(`{"sql":${text}`.length, -1)
      .replace(/^,"(?:named_)?args":\[(.*)\]$/s, '$1')
    const args = [ownArgs, ...this.#args].filter(Boolean).join()
    const key = this.#isNamed ? 'named_args' : 'args'
    return { sql, kind: 'read', json: `{"sql":${JSON.stringify(sql)}${args && `,"${key}":[${args}]`}}` }
  }
}

const NULL = '{"type":"null"}'

/** Encodes a cell as it came. */
const encodeCell = (cell: WireValue): string =>
  cell.type === 'float'
    ? `{"type":"float","value":${Object.is(Number(cell.value), -0) ? '-0.0' : Number(cell.value)}}`
    : JSON.stringify(cell)
