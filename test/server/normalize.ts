/** The parts of a response that are compared. */
export interface ComparedResponse {
  readonly status: number
  readonly contentType: string | null
  readonly allow: string | null
  /** The normalized body. */
  readonly body: unknown
}

/** Names batons in the order in which they appear, so that two runs can be compared. */
export class BatonNames {
  readonly #names = new Map<string, string>()

  nameOf(baton: string): string {
    const existing = this.#names.get(baton)
    if (existing !== undefined) return existing
    const name = `<baton:${this.#names.size + 1}>`
    this.#names.set(baton, name)
    return name
  }
}

/**
 * Normalizes a body so that two servers can be compared: omits durations, row counters and positions in JSON text, reduces a
 * replication index to present or absent, and replaces batons with names.
 */
export function normalizeBody(text: string, batons: BatonNames): unknown {
  try {
    return normalize(JSON.parse(text), batons)
  } catch {
    if (text.startsWith('{'))
      return text
        .trimEnd()
        .split('\n')
        .map((line) => normalizeLine(line, batons))
    return text.replace(/(Cannot deserialize client message from JSON: .*?) at line \d+ column \d+$/s, '$1')
  }
}

function normalizeLine(line: string, batons: BatonNames): unknown {
  try {
    return normalize(JSON.parse(line), batons)
  } catch {
    return line
  }
}

function normalize(value: unknown, batons: BatonNames): unknown {
  if (Array.isArray(value)) return value.map((item) => normalize(item, batons))
  if (typeof value !== 'object' || value === null) return value
  const result: Record<string, unknown> = {}
  for (const [key, item] of Object.entries(value)) {
    if (key === 'rows_read' || key === 'rows_written' || key === 'query_duration_ms') continue
    if (key === 'replication_index') result[key] = item === null ? null : 'an index'
    else if (key === 'baton' && typeof item === 'string') result[key] = batons.nameOf(item)
    else result[key] = normalize(item, batons)
  }
  return result
}

const TRUNCATION_MARK = /<… \d+ characters in all>$/

/** Whether a recorded body was truncated; then only its beginning can be compared. */
export function isTruncated(body: string): boolean {
  return TRUNCATION_MARK.test(body)
}

/** Returns the beginning of a body as text, without variable parts. */
export function beginningOf(body: string, length: number): string {
  return body
    .replace(TRUNCATION_MARK, '')
    .replaceAll(/"baton":"[^"]*"/g, '"baton":"…"')
    .replaceAll(/"rows_(read|written)":\d+/g, '')
    .replaceAll(/"query_duration_ms":[0-9.e-]+/g, '')
    .replaceAll(/"replication_index":("\d+"|null)/g, '')
    .slice(0, length)
}
