/**
 * Returns the shortest text of a REAL, with a decimal point or an exponent, so that it differs from an integer.
 * @param value null for an infinity, whose sign servers do not send
 */
export function realText(value: number | null): string {
  const text = Object.is(value, -0) ? '-0' : String(value ?? Number.NaN)
  return /^-?\d+$/.test(text) ? `${text}.0` : text
}

/**
 * Whether a string looks exactly like a stored number: an integer of 64 bits, or the shortest text of a REAL. SQLite stores -0.0
 * as 0.0.
 */
export function isNumberText(text: string): boolean {
  if (/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return BigInt.asIntN(64, BigInt(text)) === BigInt(text)
  return /^-?\d/.test(text) && text !== '-0.0' && realText(Number(text)) === text
}

/**
 * Returns a string as a cell of a CSV file (RFC 4180). It is quoted if necessary, if it is empty, because an empty cell is NULL, and if
 * it looks like a number, so that `baton import` keeps it a text.
 */
export function csvText(text: string): string {
  const needsQuotes = text === '' || /[",\r\n\ufeff]/.test(text) || isNumberText(text)
  return needsQuotes ? `"${text.replaceAll('"', '""')}"` : text
}
