const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPENING_BRACKET = 0x5b
const OPENING_BRACE = 0x7b

/**
 * Estimates the number of values in JSON text that arrives in parts, without parsing it: counts commas and the beginnings of arrays
 * and objects. A body with too many values is rejected before parsing it would take seconds and much memory.
 */
export class JsonItemCounter {
  #isInString = false
  #isEscaped = false
  #count = 0

  get count(): number {
    return this.#count
  }

  add(part: Buffer): void {
    let [isInString, isEscaped, count] = [this.#isInString, this.#isEscaped, this.#count]
    for (const byte of part) {
      if (isInString) {
        if (isEscaped) isEscaped = false
        else if (byte === BACKSLASH) isEscaped = true
        else if (byte === QUOTE) isInString = false
      } else if (byte === QUOTE) isInString = true
      else if (byte === COMMA || byte === OPENING_BRACE || byte === OPENING_BRACKET) count += 1
    }
    this.#isInString = isInString
    this.#isEscaped = isEscaped
    this.#count = count
  }
}
