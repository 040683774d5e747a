import { decodeBase64 } from '#base64'
import type { WireBatchResult, WirePipelineResponse, WireValue } from '../base/wire.ts'
import { decodeFloat, decodeInteger, type IntMode, type Value } from './value.ts'

// Parses the rows of long results from the text of the response. JSON.parse would spend most of its time on an object for each
// cell, which no caller sees. If a type, a separator or a mark below is not where servers write it, JSON.parse reads the rows. The values
// are not validated: some that are not JSON, such as a REAL written as 0x10, are accepted.

/** Rows of at most this many characters are parsed as JSON. */
const MIN_LENGTH = 1_000

// These marks occur only where the response has these keys. They cannot occur in a value, where their quotes would be written as `\"`, and
// a cell has no such keys.
const ROWS_START = '"rows":[['
const COLUMNS_KEY = '"cols":'
const ROWS_END = ']],"affected_row_count":'

/** Position of the first letter of a cell's type. */
const KIND_OFFSET = '{"type":"'.length
const INTEGER = 105
const TEXT = 116
const FLOAT = 102
const BLOB = 98
const NULL = 110

/** Returns the number of characters before the value of a cell; for NULL, before the last brace; 0 for an unknown type. */
function valueOffset(kind: number): number {
  switch (kind) {
    case INTEGER:
      return '{"type":"integer","value":"'.length
    case TEXT:
      return '{"type":"text","value":"'.length
    case FLOAT:
      return '{"type":"float","value":'.length
    case BLOB:
      return '{"type":"blob","base64":"'.length
    case NULL:
      return '{"type":"null"'.length
    default:
      return 0
  }
}

const QUOTE = 34
const COLON = 58
const COMMA = 44
const OPEN_BRACKET = 91
const BACKSLASH = 92
const CLOSE_BRACKET = 93
const CLOSE_BRACE = 125

/** In V8, a substring of at least this length keeps the whole text in memory. */
const MIN_SHARED_LENGTH = 13
/** Returns a substring with memory of its own. */
const copy = (part: string): string => (part.length < MIN_SHARED_LENGTH ? part : ` ${part}`.slice(1))

/** The rows of one result as text: `[[cell, …], …]`. */
export class RowText {
  readonly #text: string
  readonly #start: number
  readonly #end: number

  constructor(text: string, start: number, end: number) {
    this.#text = text
    this.#start = start
    this.#end = end
  }

  /** Parses the rows with JSON.parse. @throws SyntaxError */
  parse(): WireValue[][] {
    return JSON.parse(this.#text.slice(this.#start, this.#end)) as WireValue[][]
  }

  /**
   * Parses and decodes the rows in one pass.
   * @param keys keys of the cells in a row
   * @param names their names in errors
   * @returns null if the text is formatted differently
   * @throws RangeError for an integer that is not exact in the mode; SyntaxError or DOMException for a malformed value
   */
  read<Row extends object>(
    newRow: () => Row,
    keys: readonly (string | number)[],
    names: readonly string[],
    intMode: IntMode,
  ): Row[] | null {
    const text = this.#text
    const rows: Row[] = []
    let position = this.#start
    let escape = this.#findEscape(position)
    // `position` is at the `[` of the rows, or at the `,` before a row
    while (text.charCodeAt(position + 1) === OPEN_BRACKET) {
      position += 1
      const row = newRow() as Record<string | number, Value>
      for (let column = 0; column < keys.length; column++) {
        position += 1
        const kind = text.charCodeAt(position + KIND_OFFSET)
        const offset = valueOffset(kind)
        if (offset === 0) return null
        const from = position + offset
        let value: Value
        if (kind === NULL) {
          value = null
          position = from
        } else if (text.charCodeAt(from - 1) !== (kind === FLOAT ? COLON : QUOTE)) return null
        else if (kind === FLOAT) {
          position = text.indexOf('}', from)
          const json = text.slice(from, position)
          value = Number(json)
          if (Number.isNaN(value)) value = decodeFloat(JSON.parse(json) as number | string | null)
        } else {
          let to = text.indexOf('"', from)
          if (escape < to) {
            if (kind !== TEXT) return null
            to = endOfText(text, from)
            value = JSON.parse(text.slice(from - 1, to + 1)) as string
            escape = this.#findEscape(to)
          } else if (kind === TEXT) value = copy(text.slice(from, to))
          else if (kind === BLOB) value = decodeBase64(text.slice(from, to))
          else value = decodeInteger(copy(text.slice(from, to)), intMode, names[column] as string)
          position = to + 1
        }
        if (text.charCodeAt(position) !== CLOSE_BRACE) return null
        position += 1
        if (text.charCodeAt(position) !== (column === keys.length - 1 ? CLOSE_BRACKET : COMMA)) return null
        row[keys[column] as string] = value
      }
      rows.push(row as Row)
      position += 1
      if (text.charCodeAt(position) !== COMMA) break
    }
    return position === this.#end - 1 && text.charCodeAt(position) === CLOSE_BRACKET ? rows : null
  }

  /** Returns the position of the next escape sequence in the rows, or their end. */
  #findEscape(from: number): number {
    // V8 does not copy a slice, and without one, the search would go on beyond the rows
    const index = this.#text.slice(from, this.#end).indexOf('\\')
    return index === -1 ? this.#end : from + index
  }
}

/** Returns the end of a JSON string whose content begins at a position. */
function endOfText(text: string, from: number): number {
  for (let to = text.indexOf('"', from); ; to = text.indexOf('"', to + 1)) {
    let backslashes = 0
    while (text.charCodeAt(to - 1 - backslashes) === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return to
  }
}

/**
 * Parses the JSON of a response, but keeps long rows as text, which is checked only as far as it is decoded.
 * @throws SyntaxError if the rest is not JSON
 */
export function parseResponse(text: string): WirePipelineResponse | null {
  const longRows: RowText[] = []
  let json = ''
  let from = 0
  for (let end = text.indexOf(ROWS_END); end !== -1; end = text.indexOf(ROWS_END, from)) {
    const part = text.slice(from, end + 2)
    const key = part.indexOf(ROWS_START)
    const start = key + ROWS_START.length - 2
    // with columns in between, the beginning and the end are those of two results: a server that writes the columns after the rows
    if (key !== -1 && part.length - start > MIN_LENGTH && !part.includes(COLUMNS_KEY, start)) {
      json += `${part.slice(0, start)}${longRows.length}`
      longRows.push(new RowText(text, from + start, end + 2))
    } else json += part
    from = end + 2
  }
  if (longRows.length === 0) return JSON.parse(text) as WirePipelineResponse | null
  const response = JSON.parse(json + text.slice(from)) as WirePipelineResponse | null
  for (const streamResult of response?.results ?? []) {
    const result = (streamResult as { response?: { result?: unknown } | null } | null)?.response?.result
    const steps = (result as WireBatchResult | undefined)?.step_results
    for (const stepResult of Array.isArray(steps) ? steps : [result]) restoreRows(stepResult, longRows)
  }
  return response
}

/** Replaces the placeholder number with the text of the rows. */
function restoreRows(result: unknown, longRows: readonly RowText[]): void {
  const { rows } = (result ?? {}) as { rows?: unknown }
  if (typeof rows === 'number') (result as { rows: unknown }).rows = longRows[rows]
}
