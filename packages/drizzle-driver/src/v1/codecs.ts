import {
  bufferFromBinaryIfAvailable,
  castToText,
  dateFromStoredMilliseconds,
  dateFromStoredSeconds,
  refineSqliteCodecs,
  type SQLiteCodecs,
} from 'drizzle-orm/sqlite-core'
import { narrowIfExact } from '../values.ts'

const narrow = <T>(value: T | bigint): T | bigint | number =>
  typeof value === 'bigint' ? narrowIfExact(value) : value

const inexact = (value: bigint | number): RangeError =>
  new RangeError(`${value} is not exact as a number; declare its column with int64()`)

/** An integer column's value. Other kinds can be in it, too, because SQLite lets them. */
function exactInteger(value: unknown): unknown {
  const narrowed = narrow(value)
  if (typeof narrowed === 'bigint') throw inexact(narrowed)
  return narrowed
}

/** The same, inside the JSON of a relational query, which has been rounded already. */
function exactIntegerInJson(value: unknown): unknown {
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value))
    throw inexact(value)
  return value
}

/** How values of the server become those of columns. */
export const batonCodecs: SQLiteCodecs = refineSqliteCodecs({
  integer: { normalize: exactInteger, normalizeInJson: exactIntegerInJson },
  'integer:boolean': { normalize: (value: unknown) => Number(value) === 1 },
  'integer:timestamp': { normalize: (value: number) => dateFromStoredSeconds(narrow(value) as number) },
  'integer:timestamp_ms': {
    normalize: (value: number) => dateFromStoredMilliseconds(narrow(value) as number),
  },
  'text:json': { normalize: JSON.parse },
  blob: { normalize: bufferFromBinaryIfAvailable },
  'blob:json': { cast: castToText, normalize: JSON.parse },
  'blob:bigint': { cast: castToText, normalize: BigInt },
  numeric: { cast: castToText, normalize: String },
  'numeric:number': { normalize: Number },
  'numeric:bigint': { cast: castToText, normalize: BigInt },
})
