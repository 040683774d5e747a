import { RealValue } from '@batonsql/core'
import { isNumberText, realText } from '@batonsql/inspector/csv-text'
import { type Cell, QuotedText } from './csv-records.ts'

/** How SQLite converts the values of a column: https://www.sqlite.org/datatype3.html#determination_of_column_affinity */
export type Affinity = 'INTEGER' | 'REAL' | 'NUMERIC' | 'TEXT' | 'BLOB'

export function affinityOf(declaredType: string): Affinity {
  if (/INT/i.test(declaredType)) return 'INTEGER'
  if (/CHAR|CLOB|TEXT/i.test(declaredType)) return 'TEXT'
  if (/BLOB/i.test(declaredType) || declaredType.trim() === '') return 'BLOB'
  return /REAL|FLOA|DOUB/i.test(declaredType) ? 'REAL' : 'NUMERIC'
}

/** Finds the type of a new column in which each value keeps its text: a number only if all values are written like numbers. */
export class TypeInference {
  #hasInteger = false
  #hasReal = false
  /** Whether there is a REAL such as 1.0. */
  #hasWholeReal = false
  /** The first value that is not written like a stored number. */
  #text: string | QuotedText | null = null
  /** Whether a column of numbers could store all texts, and one of integers. */
  #canBeNumber = true
  #canBeInteger = true

  add(cell: Cell): void {
    if (cell === null || !this.#canBeNumber) return
    if (cell instanceof QuotedText || !isNumberText(cell)) this.#addText(cell)
    else if (/^-?\d+$/.test(cell)) this.#hasInteger = true
    else {
      this.#hasReal = true
      this.#hasWholeReal ||= Number.isInteger(Number(cell))
    }
  }

  #addText(cell: string | QuotedText): void {
    this.#text ??= cell
    try {
      if (typeof toValue(cell, 'REAL') !== 'bigint') this.#canBeInteger = false
    } catch {
      this.#canBeNumber = false
    }
  }

  /** Returns a note about a column that stays TEXT although its values are numbers; null if it is none. */
  describeText(name: string): string | null {
    const example = this.#text
    if (example === null || !this.#canBeNumber) return null
    const reason =
      example instanceof QuotedText
        ? `its numbers are in quotes ("${example.text}")`
        : `a number would be printed differently than in the file (${example})`
    return `${name} is TEXT, because ${reason}; --type ${name}=${this.#canBeInteger && !this.#hasReal ? 'INTEGER' : 'REAL'} makes it a number`
  }

  /** The declared type. TEXT if there are no values, empty if integers and REALs such as 1.0 are mixed. */
  get type(): string {
    if (this.#text !== null || !(this.#hasInteger || this.#hasReal)) return 'TEXT'
    if (!this.#hasReal) return 'INTEGER'
    if (!this.#hasInteger) return 'REAL'
    // a REAL column would change 1 to 1.0, and a NUMERIC column 1.0 to 1
    return this.#hasWholeReal ? '' : 'NUMERIC'
  }
}

/** A cell does not fit its column. */
export class BadValueError extends Error {}

/** A value to store. A whole REAL must not be a plain number, which would be sent as an integer. */
type StoredValue = null | bigint | string | RealValue

/**
 * Returns the value to store in a column.
 * @throws BadValueError for a text that is not a number, in a column of numbers, or that the conversion to a number would change
 */
export function toValue(cell: Cell, affinity: Affinity): StoredValue {
  if (cell === null) return null
  const text = cell instanceof QuotedText ? cell.text : cell
  if (affinity === 'TEXT') return text
  if (affinity === 'BLOB') return cell instanceof QuotedText || !isNumberText(text) ? text : toNumber(text)
  const number = /^\s*[-+]?\.?\d[\d.]*(?:e[-+]?\d+)?\s*$/i.test(text) ? toNumber(text) : null
  if (number !== null) return number
  // dates and the like have the affinity NUMERIC
  if (affinity === 'NUMERIC') return text
  throw new BadValueError(`${JSON.stringify(text)} is not a number`)
}

/** Converts a text to a number. @throws BadValueError if the number would be written differently, or would lose digits */
function toNumber(text: string): RealValue | bigint {
  const lost = new BadValueError(`${JSON.stringify(text)} would be changed by a conversion to a number`)
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[-+]?\d+)?$/i.test(text)) throw lost
  if (/^-?\d+$/.test(text) && text !== '-0') {
    const integer = BigInt(text)
    if (BigInt.asIntN(64, integer) !== integer) throw lost
    return integer
  }
  const number = Number(text)
  // a double keeps 15 significant digits
  const digits = text.replace(/e.*$/i, '').replaceAll(/[-.]/g, '').replace(/^0+/, '')
  if (!Number.isFinite(number) || Object.is(number, -0) || (digits.length > 15 && realText(number) !== text))
    throw lost
  return new RealValue(number)
}
