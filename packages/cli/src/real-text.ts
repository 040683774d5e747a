/** Returns the shortest text of a REAL, with a decimal point or an exponent, so that it differs from an integer. */
export function realText(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value)
  return /^-?\d+$/.test(text) ? `${text}.0` : text
}
