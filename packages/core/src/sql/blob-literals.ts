import { MAX_VALUE_BYTES } from '../base/limits.ts'

/**
 * Rejects SQL with a blob literal that is larger than a value may be: libSQL's parser makes it NULL, without an error.
 * @throws RangeError with the position of the literal
 */
export function checkBlobLiterals(sql: string): void {
  // most texts are too short for such a literal, and are not searched
  if (sql.length <= MAX_VALUE_BYTES * 2) return
  for (const { 0: literal, index } of sql.matchAll(/x'[\da-f]*'/gi)) {
    const bytes = (literal.length - 3) / 2
    if (bytes > MAX_VALUE_BYTES)
      throw new RangeError(
        `a blob of ${bytes} bytes at offset ${index} is too large: a value has at most ${MAX_VALUE_BYTES} bytes`,
      )
  }
}
