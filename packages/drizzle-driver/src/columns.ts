import { decodeVector, encodeVector, type InVector } from '@batonsql/core'
import { type SQL, sql } from 'drizzle-orm'
import { customType } from 'drizzle-orm/sqlite-core'
import { bytesFromHex } from './own-buffer.ts'

// Shared by all Drizzle versions. Only 1.0 uses `forJsonSelect`, for nested rows.

const int64Type = {
  dataType: () => 'integer',
  fromDriver: BigInt,
  fromJson: BigInt,
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
  forJsonSelect: (column: SQL) => sql`hex(${column})`,
}

interface VectorColumn {
  data: InVector
  driverData: Uint8Array
  jsonData: string
  config: { readonly dimensions: number }
  configRequired: true
}

/** A column of 32-bit float vectors: `vector({ dimensions: 384 })`. Accepts arrays and returns Float32Arrays. */
// explicit, because TypeScript before 5.7 does not have the inferred type of Uint8Array
export const vector: ReturnType<typeof customType<VectorColumn>> = customType<VectorColumn>(vectorType)
