/** The parts of a response that are compared. */
export interface Observed {
  readonly status: number
  readonly contentType: string | null
  readonly allow: string | null
  /** How the body was compressed. */
  readonly body: unknown
}

/** A name for each baton in the order of their appearance, so that two runs can be compared. */
export class BatonNames {
  readonly #names = new Map<string, string>()

  nameOf(baton: string): string {
    const known = this.#names.get(baton)
    if (known !== undefined) return known
    const name = `<baton:${this.#names.size + 1}>`
    this.#names.set(baton, name)
    return name
  }
}

/**
 * Normalizes a body so that two servers can be compared: durations and row counters are left out, a
 * replication index counts only as present or absent, positions in JSON text are left out, batons get names.
 */
export function normaliseBody(text: string, batons: BatonNames): unknown {
  try {
    return normalise(JSON.parse(text), batons)
  } catch {
    if (text.startsWith('{'))
      return text
        .trimEnd()
        .split('\n')
        .map((line) => lineOf(line, batons))
    return text.replace(/(Cannot deserialize client message from JSON: .*?) at line \d+ column \d+$/s, '$1')
  }
}

function lineOf(line: string, batons: BatonNames): unknown {
  try {
    return normalise(JSON.parse(line), batons)
  } catch {
    return line
  }
}

function normalise(value: unknown, batons: BatonNames): unknown {
  if (Array.isArray(value)) return value.map((item) => normalise(item, batons))
  if (typeof value !== 'object' || value === null) return value
  const result: Record<string, unknown> = {}
  for (const [key, item] of Object.entries(value)) {
    if (key === 'rows_read' || key === 'rows_written' || key === 'query_duration_ms') continue
    if (key === 'replication_index') result[key] = item === null ? null : 'an index'
    else if (key === 'baton' && typeof item === 'string') result[key] = batons.nameOf(item)
    else result[key] = normalise(item, batons)
  }
  return result
}

const CUT = /<… \d+ characters in all>$/

/** Whether a recorded body was truncated; then only its beginning can be compared. */
export function isCut(body: string): boolean {
  return CUT.test(body)
}

/** The beginning of a body as text, without variable parts. */
export function beginningOf(body: string, length: number): string {
  return body
    .replace(CUT, '')
    .replaceAll(/"baton":"[^"]*"/g, '"baton":"…"')
    .replaceAll(/"rows_(read|written)":\d+/g, '')
    .replaceAll(/"query_duration_ms":[0-9.e-]+/g, '')
    .replaceAll(/"replication_index":("\d+"|null)/g, '')
    .slice(0, length)
}
