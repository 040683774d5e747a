import type { DatabaseUsage } from '../models.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { CALL } from '../platform-http.ts'
import type { Query } from '../platform-path.ts'
import { isObject, viewOf } from '../view.ts'

export interface UsageOptions extends PlatformCallOptions {
  /** Begin of the time: a Date, or RFC 3339 with its zone. */
  readonly from?: Date | string | undefined
  readonly to?: Date | string | undefined
}

export const USAGE = { ...CALL, from: 'string or object', to: 'string or object' }

export function usageQuery({ from, to }: Pick<UsageOptions, 'from' | 'to'>): Query {
  const text = (time: Date | string | undefined): string | undefined =>
    time instanceof Date ? time.toISOString() : time
  return { from: text(from), to: text(to) }
}

/** The service has called the sum `usage` and `total`. */
export function readUsage(usage: DatabaseUsage): DatabaseUsage {
  const { raw } = usage
  const total = raw['total'] ?? raw['usage']
  const figures = { ...usage, total: isObject(total) ? viewOf<DatabaseUsage['total']>(total) : null }
  return Object.defineProperty(figures, 'raw', { value: raw })
}
