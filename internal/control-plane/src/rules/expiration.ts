import { ApiError } from '../api-error.ts'

const UNIT_SECONDS = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800, y: 31_536_000 } as const
const DURATION = /^(?:\d{1,9}[smhdwy])+$/
const NEVER_EXPIRES: ReadonlySet<string> = new Set(['never', 'none', 'default', ''])

/**
 * Parses a token lifetime, such as `2w1d30m`, into seconds; null if the token does not expire.
 * @throws ApiError for any other text
 */
export function parseExpiration(text: string): number | null {
  if (NEVER_EXPIRES.has(text)) return null
  if (!DURATION.test(text)) throw new ApiError(400, 'Invalid expiration format')
  const parts = [...text.matchAll(/(\d+)([smhdwy])/g)]
  const seconds = parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNIT_SECONDS[unit as keyof typeof UNIT_SECONDS],
    0,
  )
  // token verifiers accept only whole numbers
  if (seconds === 0 || !Number.isSafeInteger(seconds)) throw new ApiError(400, 'Invalid expiration format')
  return seconds
}
