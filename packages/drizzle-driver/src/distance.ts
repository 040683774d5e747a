import { encodeVector, type InVector } from '@batonsql/core'
import { type Column, type SQL, sql } from 'drizzle-orm'

// Shared by all Drizzle versions.

/** Cosine distance: 0 for the same direction, 1 for orthogonal vectors, 2 for opposite directions. */
export const cosineDistance = (column: Column | SQL, to: InVector): SQL<number> =>
  sql<number>`vector_distance_cos(${column}, ${encodeVector(to)})`

/** Euclidean distance. */
export const euclideanDistance = (column: Column | SQL, to: InVector): SQL<number> =>
  sql<number>`vector_distance_l2(${column}, ${encodeVector(to)})`
