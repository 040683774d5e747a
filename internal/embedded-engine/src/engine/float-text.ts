/**
 * Formats a double as the service does: the shortest digits that parse to the same number, with `.0` for whole numbers and
 * exponents from 1e16 (`1.0`, `-0.0`, `1e20`, `1.5e-7`). Infinities and NaN are `null`.
 */
export function formatFloat(value: number): string {
  if (!Number.isFinite(value)) return 'null'
  const magnitude = Math.abs(value)
  if (magnitude === 0) return Object.is(value, -0) ? '-0.0' : '0.0'
  if (magnitude >= 1e-5 && magnitude < 1e16) return Number.isInteger(value) ? `${value}.0` : String(value)
  return value.toExponential().replace('e+', 'e')
}
