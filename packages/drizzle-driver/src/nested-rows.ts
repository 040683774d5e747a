/** Matches numbers long enough to exceed 2^53. */
const LONG_INTEGER = /\d{16}/

/** Parses JSON like JSON.parse, but returns integers that would be rounded as bigints. */
function parseExactly(text: string, reviveText: (text: string) => unknown): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) => {
    if (typeof value === 'string') return reviveText(value)
    if (typeof value !== 'number' || !Number.isInteger(value) || Number.isSafeInteger(value)) return value
    return /^-?\d+$/.test(context?.source ?? '') ? BigInt(context?.source as string) : value
  })
}

/**
 * Parses the nested rows of a relational query, which are JSON, before Drizzle can parse them and round integers. `toColumnValue`
 * restores the text of a column that only looks like nested rows.
 */
export class NestedRows {
  readonly #texts = new Map<unknown, string>()

  /** Parses the JSON of nested rows; returns every other value unchanged. */
  read = (value: unknown): unknown => {
    if (typeof value !== 'string' || !value.startsWith('[') || !LONG_INTEGER.test(value)) return value
    try {
      const rows = parseExactly(value, this.read)
      this.#texts.set(rows, value)
      return rows
    } catch {
      return value
    }
  }

  /** Returns the original value of a column, whose text is never nested rows. */
  toColumnValue = (value: unknown): unknown => this.#texts.get(value) ?? value
}
