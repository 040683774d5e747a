import { decodeVector, encodeVector, type InVector } from '@batonsql/core'
import { type SQL, sql } from 'drizzle-orm'
import { customType } from 'drizzle-orm/sqlite-core'

// The same source serves all versions of Drizzle. How a value goes through JSON, for nested rows, only 1.0 asks.

const int64Type = {
  dataType: () => 'integer',
  fromDriver: BigInt,
  fromJson: BigInt,
  forJsonSelect: (column: SQL) => sql`cast(${column} as text)`,
}

/**
 * A column of 64-bit integers as bigint, exact in SQL and in JavaScript. A plain `integer()` column throws when a value does
 * not fit into a number exactly.
 */
export const int64 = customType<{ data: bigint; driverData: bigint | number | string; jsonData: string }>(
  int64Type,
)

const vectorType = {
  dataType: ({ dimensions }: { readonly dimensions: number }) => `F32_BLOB(${dimensions})`,
  toDriver: encodeVector,
  fromDriver: decodeVector,
  fromJson: (hex: string) =>
    decodeVector(Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16))),
  forJsonSelect: (column: SQL) => sql`hex(${column})`,
}

interface VectorColumn {
  data: InVector
  driverData: Uint8Array
  jsonData: string
  config: { readonly dimensions: number }
  configRequired: true
}

/** A column of vectors of 32-bit numbers: `vector({ dimensions: 384 })`. Takes arrays and gives Float32Arrays. */
// written out, as TypeScript before 5.7 does not know the Uint8Array that it would infer
export const vector: ReturnType<typeof customType<VectorColumn>> = customType<VectorColumn>(vectorType)
