import { encodeBase64 } from '#base64'
import { ProtocolError } from '../base/errors.ts'
import type { WireColumn, WireResult, WireValue } from '../base/wire.ts'
import { RowText } from './row-text.ts'
import { decodeValue, type IntMode, type Value } from './value.ts'

/** A row as a plain object, keyed by column name. If columns have the same name, the last one wins. */
export type ObjectRow = Record<string, Value>

/** A row as an array, in the order of `columns`. */
export type ArrayRow = Value[]

/** `object` (default) returns rows as plain objects; `array` keeps columns of the same name apart. */
export type RowMode = 'object' | 'array'

/** The result of one statement. */
export class ResultSet<Row = ObjectRow> {
  /** Column names, including duplicates. */
  readonly columns: readonly string[]
  /** Column types as declared in the schema; null for expressions. */
  readonly columnTypes: readonly (string | null)[]
  readonly rows: Row[]
  /** Number of rows changed by INSERT, UPDATE, REPLACE or DELETE; 0 for every other statement. */
  readonly rowsAffected: number
  /**
   * Rowid of the last row that an INSERT or REPLACE inserted; null if it inserted none, and for every other statement. Use RETURNING
   * where the server does not report it reliably: for an upsert it is null if a row may have been updated instead, for rowid 0 it is
   * null if nothing was inserted before, and for a table WITHOUT ROWID it can be the rowid of an earlier insert.
   */
  readonly lastInsertRowid: bigint | null
  /** Number of rows read by the engine, for billing; 0 if the server does not report it. */
  readonly rowsRead: number
  /** Number of rows and index entries written by the engine, for billing; 0 if the server does not report it. */
  readonly rowsWritten: number
  /** Time the server spent on the statement, in ms; 0 if it does not report it. */
  readonly durationMs: number

  /** @internal */
  constructor(result: WireResult, rows: Row[], lastInsertRowid: bigint | null = null) {
    const { cols } = result
    this.columns = columnNames(cols)
    this.columnTypes = cols.map((column) => column.decltype ?? null)
    this.rows = rows
    this.rowsAffected = result.affected_row_count
    this.lastInsertRowid = lastInsertRowid
    this.rowsRead = result.rows_read ?? 0
    this.rowsWritten = result.rows_written ?? 0
    this.durationMs = result.query_duration_ms ?? 0
  }

  /**
   * Returns a value for JSON.stringify. A bigint becomes a string of digits, and a blob becomes base64. Infinities become null and
   * -0 becomes 0, because JSON has neither.
   */
  toJSON(): unknown {
    const toJson = (_: string, value: unknown): unknown => {
      if (typeof value === 'bigint') return String(value)
      return value instanceof Uint8Array ? encodeBase64(value) : value
    }
    // copied without this method, because JSON.stringify would call it again
    return JSON.parse(JSON.stringify(Object.assign({}, this), toJson))
  }
}

export function rowDecoder(
  cols: readonly WireColumn[],
  intMode: IntMode,
  rowMode?: RowMode,
): (cells: readonly WireValue[]) => ObjectRow | ArrayRow {
  const names = columnNames(cols)
  const checkLength = ({ length }: readonly WireValue[]): void => {
    if (length !== names.length)
      throw new ProtocolError(`a row has ${length} values for ${names.length} columns`)
  }
  if (rowMode === 'array')
    return (cells) => {
      checkLength(cells)
      return cells.map((cell, index) => decodeValue(cell, intMode, names[index] as string))
    }
  const canAssign = canAssignAll(names)
  return (cells) => {
    checkLength(cells)
    const row: ObjectRow = {}
    for (let index = 0; index < names.length; index++) {
      const name = names[index] as string
      const value = decodeValue(cells[index] as WireValue, intMode, name)
      if (canAssign) row[name] = value
      else Object.defineProperty(row, name, { value, writable: true, enumerable: true, configurable: true })
    }
    return row
  }
}

export function decodeResult(
  result: WireResult,
  intMode: IntMode,
  rowMode?: RowMode,
  lastInsertRowid: bigint | null = null,
): ResultSet<ObjectRow | ArrayRow> {
  if (!result?.cols || !result.rows) throw new ProtocolError('a result is missing `cols` or `rows`')
  return new ResultSet(result, decodeRows(result, intMode, rowMode), lastInsertRowid)
}

function decodeRows(
  { cols, rows }: WireResult,
  intMode: IntMode,
  rowMode?: RowMode,
): (ObjectRow | ArrayRow)[] {
  const decode = rowDecoder(cols, intMode, rowMode)
  if (!(rows instanceof RowText)) return (rows as WireValue[][]).map(decode)
  const names = columnNames(cols)
  let decoded: (ObjectRow | ArrayRow)[] | null = null
  if (rowMode === 'array') decoded = rows.read<ArrayRow>(() => [], [...names.keys()], names, intMode)
  else if (canAssignAll(names)) decoded = rows.read<ObjectRow>(() => ({}), names, names, intMode)
  // `decoded` is also null if the text is not formatted the way servers format it
  return decoded ?? rows.parse().map(decode)
}

const columnNames = (cols: readonly WireColumn[]): string[] => cols.map(({ name }) => name ?? '')

/** Whether a row can be filled by plain assignments. Assigning to `__proto__` would set the prototype of the row. */
const canAssignAll = (names: readonly string[]): boolean => !names.includes('__proto__')
