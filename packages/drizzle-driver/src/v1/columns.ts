import { decodeVector, encodeVector, type InVector } from '@batonsql/core'
import { customType } from 'drizzle-orm/sqlite-core'

/**
 * A column of 64-bit integers as bigint, exact in SQL and in JavaScript, also inside relational queries. A plain `integer()`
 * column throws when a value does not fit into a number exactly.
 */
export const int64 = customType<{ data: bigint; driverData: bigint | number | string; jsonData: string }>({
  dataType: () => 'integer',
  fromDriver: BigInt,
  fromJson: BigInt,
  forJsonSelect: (identifier, sql) => sql`cast(${identifier} as text)`,
})

/** A column of vectors of 32-bit numbers: `vector({ dimensions: 384 })`. Takes arrays and gives Float32Arrays. */
export const vector = customType<{
  data: InVector
  driverData: Uint8Array
  jsonData: string
  config: { readonly dimensions: number }
  configRequired: true
}>({
  dataType: ({ dimensions }) => `F32_BLOB(${dimensions})`,
  toDriver: encodeVector,
  fromDriver: decodeVector,
  fromJson: (hex) =>
    decodeVector(Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16))),
  forJsonSelect: (identifier, sql) => sql`hex(${identifier})`,
})
