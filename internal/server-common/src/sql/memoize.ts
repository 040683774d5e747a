/** Maximum number of cached results, in two halves; the older half is dropped when the newer one is full. */
const MAX_RESULTS = 1_000

/**
 * Returns a function that caches its results by SQL text: applications tend to repeat the same few statements. SQL longer than
 * `maxCharacters` is not cached: it is rarely sent twice.
 */
export function memoize<T>(compute: (sql: string) => T, maxCharacters = 2_000): (sql: string) => T {
  let newer = new Map<string, T>()
  let older = newer
  return (sql) => {
    const cached = newer.get(sql) ?? older.get(sql)
    if (cached !== undefined) return cached
    const result = compute(sql)
    if (sql.length > maxCharacters) return result
    if (newer.size >= MAX_RESULTS / 2) {
      older = newer
      newer = new Map()
    }
    newer.set(sql, result)
    return result
  }
}
