import { decodeVector, encodeVector, type InVector } from '@batonsql/core'
import { type SQL, sql } from 'drizzle-orm'
import { customType } from 'drizzle-orm/sqlite-core'
import { bytesFromHex, hexInJson } from './bytes-from-hex.ts'

// Shared by all Drizzle versions. Only 1.0 has `fromJson` and `forJsonSelect`, for nested rows: in an object literal that is passed
// to `customType()`, TypeScript would reject them for older versions, so the types are constants.

const int64Type = {
  dataType: () => 'integer',
  fromDriver: exactBigInt,
  fromJson: exactBigInt,
  forJsonSelect: (column: SQL) => sql`cast(${column} as text)`,
}

/**
 * A column of 64-bit integers, read as bigint. A plain `integer()` column throws for a value that is not exact as a number.
 */
export const int64 = customType<{ data: bigint; driverData: bigint | number | string; jsonData: string }>(
  int64Type,
)

const vectorType = {
  dataType: ({ dimensions }: { readonly dimensions: number }) => `F32_BLOB(${dimensions})`,
  toDriver: encodeVector,
  fromDriver: decodeVector,
  fromJson: (hex: string) => decodeVector(bytesFromHex(hex)),
  forJsonSelect: hexInJson,
}

interface VectorColumn {
  data: InVector
  driverData: Uint8Array
  jsonData: string
  config: { readonly dimensions: number }
  configRequired: true
}

// the type is explicit, because the inferred one contains `Uint8Array<…>`, which TypeScript before 5.7 does not have
/**
 * A column of 32-bit float vectors: `vector({ dimensions: 384 })`. Accepts arrays and returns Float32Arrays; Drizzle has only one
 * type for both.
 */
export const vector: ReturnType<typeof customType<VectorColumn>> = customType<VectorColumn>(vectorType)

/** @throws RangeError for a number that may be rounded, as in the JSON of nested rows, where Drizzle does not cast an extra */
function exactBigInt(value: bigint | number | string): bigint {
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    throw new RangeError(`int64(): ${value} is not exact; in an extra, use cast(… as text)`)
  return BigInt(value)
}
