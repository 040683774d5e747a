import { encodeVector, type InVector } from '@batonsql/core'
import { type Expression, type RawBuilder, sql } from 'kysely'

/** Column type of vectors of 32-bit floats, for `addColumn()`. Write them with `encodeVector`, read them with `decodeVector`. */
export const vectorType = (dimensions: number): RawBuilder<unknown> => sql`F32_BLOB(${sql.lit(dimensions)})`

type Operand = string | Expression<unknown>
const operand = (column: Operand): Expression<unknown> =>
  typeof column === 'string' ? sql.ref(column) : column

/** Cosine distance: 0 for the same direction, 1 for a right angle, 2 for opposite directions. */
export const cosineDistance = (column: Operand, to: InVector): RawBuilder<number> =>
  sql<number>`vector_distance_cos(${operand(column)}, ${encodeVector(to)})`

/** Euclidean distance. */
export const euclideanDistance = (column: Operand, to: InVector): RawBuilder<number> =>
  sql<number>`vector_distance_l2(${operand(column)}, ${encodeVector(to)})`

/**
 * Finds the `count` rows nearest to a vector, with the index of this name on `libsql_vector_idx(column)`. Yields a table of their `id`,
 * for a join.
 *
 * ```ts
 * db.selectFrom(nearest('place_at', [0, 1, 0], 10).as('near'))
 *   .innerJoin('place', 'place.id', 'near.id')
 * ```
 */
export const nearest = (index: string, to: InVector, count: number): RawBuilder<{ id: number }> =>
  sql<{ id: number }>`vector_top_k(${index}, ${encodeVector(to)}, ${count})`
