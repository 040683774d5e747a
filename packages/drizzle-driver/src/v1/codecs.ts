import { type Column, sql } from 'drizzle-orm'
import type { CodecsCollection, NormalizeCodec } from 'drizzle-orm/codecs'
import type { SQLiteCodecs, SQLiteType } from 'drizzle-orm/sqlite-core'
import { bytesFromHex, hexInJson } from '../bytes-from-hex.ts'
import { exactNumber, inexactError } from '../exact-integer.ts'
import { codecName } from '../internals.ts'
import { toOwnBuffer } from '../own-buffer.ts'
import {
  castToText,
  dateFromStoredMilliseconds,
  dateFromStoredSeconds,
  refineSqliteCodecs,
} from './drizzle-1.ts'

// Drizzle 1.0 reads a column in two ways. A select puts `cast` around the column in SQL and passes the value to `normalize`. A
// relational query collects rows as JSON: it uses `castInJson`, and `normalizeInJson` for the value that JSON.parse returns.
//
// SQLite's casts and JSON functions keep 15 digits of a REAL, which needs up to 17.

/** Formats a REAL with all digits, as text; other values are unchanged. JSON has no infinity, which SQLite formats as 9e999. */
const realToText: typeof castToText = (name) =>
  sql`case when typeof(${name}) = 'real' and abs(${name}) < 9e999 then printf('%!.17g', ${name}) else ${name} end`
const numberToText: typeof castToText = (name) => sql`cast(${realToText(name)} as text)`

/** Parses the text of a REAL; returns every other value unchanged. */
const parseReal = (value: unknown): unknown =>
  typeof value === 'string' && /^-?\d+\.\d+(?:e[+-]\d+)?$/.test(value) ? Number(value) : value

const numberInJson = { castInJson: realToText, normalizeInJson: parseReal }

/** Converts the server's values to the values of columns. */
export const batonCodecs: SQLiteCodecs = refineSqliteCodecs({
  'integer:boolean': { normalize: (value: unknown) => Number(value) === 1 },
  'integer:timestamp': { normalize: dateFromStoredSeconds },
  'integer:timestamp_ms': { normalize: dateFromStoredMilliseconds },
  'text:json': { normalize: JSON.parse },
  blob: {
    normalize: toOwnBuffer,
    castInJson: hexInJson,
    normalizeInJson: (hex: string) => toOwnBuffer(bytesFromHex(hex)),
  },
  'blob:json': { cast: castToText, normalize: JSON.parse },
  'blob:bigint': { cast: castToText, normalize: BigInt },
  integer: numberInJson,
  real: numberInJson,
  numeric: {
    normalize: String,
    castInJson: numberToText,
    normalizeInJson: (value: unknown) => String(parseReal(value)),
  },
  'numeric:number': { normalize: Number, castInJson: numberToText },
  'numeric:bigint': { cast: castToText, normalize: BigInt },
})

const NUMBER_COLUMNS = new Set(['integer', 'integer:timestamp', 'integer:timestamp_ms', 'numeric:number'])

/** Makes codecs reject inexact integers in number and date columns. Values of other types are unchanged. */
export function rejectInexactIntegers(codecs: CodecsCollection<SQLiteType>): void {
  const get = codecs.get.bind(codecs)
  codecs.get = (column, kind, override) => {
    const codec = get(column, kind, override)
    const read = kind === 'normalize' ? requireExact : kind === 'normalizeInJson' ? requireExactInJson : null
    if (read === null || !NUMBER_COLUMNS.has(override ?? codecName(column))) return codec
    const normalize = (codec ?? ((value: unknown) => value)) as NormalizeCodec
    return (value: unknown) => normalize(read(value, column))
  }
}

const requireExact = (value: unknown, column: Column): unknown =>
  typeof value === 'bigint' ? exactNumber(value, column) : value

/** In JSON, numeric() values are text, and JSON.parse has already rounded integers. Values beyond 2^63 cannot have been integers. */
function requireExactInJson(value: unknown, column: Column): unknown {
  if (typeof value === 'string') return /^-?\d+$/.test(value) ? exactNumber(BigInt(value), column) : value
  if (typeof value !== 'number' || !Number.isInteger(value) || Number.isSafeInteger(value)) return value
  if (Math.abs(value) > 2 ** 63) return value
  throw inexactError(`about ${value}`, column)
}
