import { encodeVector, type InVector } from '@batonsql/core'
import { type Column, type SQL, sql } from 'drizzle-orm'

// The same source serves all versions of Drizzle.

/** Cosine distance: 0 for the same direction, 1 for a right angle, 2 for the opposite one. */
export const cosineDistance = (column: Column | SQL, to: InVector): SQL<number> =>
  sql<number>`vector_distance_cos(${column}, ${encodeVector(to)})`

/** Euclidean distance. */
export const euclideanDistance = (column: Column | SQL, to: InVector): SQL<number> =>
  sql<number>`vector_distance_l2(${column}, ${encodeVector(to)})`
