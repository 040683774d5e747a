import { ApiError } from '../api-error.ts'

/** Prefixes of units, each 1,024 times the previous one. */
const UNITS: readonly string[] = ['', 'k', 'm', 'g', 't']
const SIZE = /^(?<number>\d+(?:\.\d+)?)\s*(?:(?<unit>[kmgt])i?)?b?$/i

/** Parses a size such as `256mb`, `1.5gb` or `1048576` into bytes; null (no limit) for an empty string and 0. @throws ApiError */
export function parseSizeLimit(text: string): number | null {
  if (text === '') return null
  const { number = '', unit = '' } = SIZE.exec(text.trim())?.groups ?? {}
  const bytes = Math.ceil(Number(number) * 1_024 ** UNITS.indexOf(unit.toLowerCase()))
  if (number === '' || !Number.isSafeInteger(bytes))
    throw new ApiError(400, `invalid size_limit: ${text.slice(0, 40)}; expected a size such as 256mb or 1gb`)
  return bytes === 0 ? null : bytes
}

/** Formats a size in the largest unit that gives a whole number; empty for no limit. */
export function formatSizeLimit(bytes: number | null): string {
  if (bytes === null) return ''
  let unit = UNITS.length - 1
  while (bytes % 1_024 ** unit !== 0) unit -= 1
  return unit === 0 ? String(bytes) : `${bytes / 1_024 ** unit}${UNITS[unit]}b`
}
