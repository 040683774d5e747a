import { is, Name, SQL, StringChunk, sql } from 'drizzle-orm'

/**
 * Makes the nested rows of a relational query keep all digits of REAL columns: SQLite's JSON functions keep 15 digits, but a REAL
 * needs up to 17. Drizzle writes `json_array("column", …)`; this replaces each column. JSON has no infinity, which SQLite formats as
 * 9e999.
 */
export function withAllDigits(rows: SQL): SQL {
  const chunks = rows.queryChunks.map((chunk, index, all) => {
    if (!is(chunk, SQL)) return chunk
    return isJsonArray(all[index - 1]) ? new SQL(chunk.queryChunks.map(formatReal)) : withAllDigits(chunk)
  })
  return new SQL(chunks)
}

const isJsonArray = (chunk: unknown): boolean =>
  is(chunk, StringChunk) && chunk.value.join('').endsWith('json_array(')

const formatReal = (column: SQL['queryChunks'][number]): SQL['queryChunks'][number] =>
  is(column, Name)
    ? sql`case when typeof(${column}) = 'real' and abs(${column}) < 9e999 then json(printf('%!.17g', ${column})) else ${column} end`
    : column
