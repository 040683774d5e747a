import { ApiError } from '../api-error.ts'
import type { Period } from '../usage.ts'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i

/** Parses a period, by default the current calendar month (UTC) until now. @throws ApiError */
export function readPeriod(from: string | undefined, to: string | undefined, now: number): Period {
  const today = new Date(now)
  const startOfMonth = Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), 1)
  const period = {
    from: from === undefined ? startOfMonth : readTime('from', from),
    to: to === undefined ? now : readTime('to', to),
  }
  if (period.from > period.to) throw new ApiError(400, 'invalid from parameter: it must not be later than to')
  return period
}

/** Parses a time with a zone into ms since the Unix epoch. @throws ApiError */
function readTime(name: string, text: string): number {
  const time = TIME.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time)) {
    throw new ApiError(
      400,
      `invalid ${name} parameter: parsing time ${JSON.stringify(text.slice(0, 60))} as "2006-01-02T15:04:05Z07:00"`,
    )
  }
  return time
}
