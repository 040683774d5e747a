/** Long enough for an integer beyond 2^53. */
const LONG_INTEGER = /\d{16}/

/** Reads JSON as JSON.parse does, but integers that it would round become bigints. */
function parseExactly(text: string, reviveText: (text: string) => unknown): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) => {
    if (typeof value === 'string') return reviveText(value)
    if (typeof value !== 'number' || !Number.isInteger(value) || Number.isSafeInteger(value)) return value
    return /^-?\d+$/.test(context?.source ?? '') ? BigInt(context?.source as string) : value
  })
}

/**
 * Reads the nested rows of a relational query's result, which come as JSON, before Drizzle does, because it would round
 * integers. What only looks like them is taken back with `textOf`.
 */
export class NestedRows {
  readonly #texts = new Map<unknown, string>()

  /** Nested rows for their JSON; every other value stays. */
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

  /** The value of a column, which is never nested rows. */
  textOf = (value: unknown): unknown => this.#texts.get(value) ?? value
}
