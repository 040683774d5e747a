const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b

/** Counts the values of JSON text that arrives in parts: each begins an array or object, or follows a comma. */
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
      else if (byte === COMMA || byte === BRACE || byte === BRACKET) count += 1
    }
    this.#isInString = isInString
    this.#isEscaped = isEscaped
    this.#count = count
  }
}
