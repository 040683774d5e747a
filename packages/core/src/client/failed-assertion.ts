import { SqlError } from '../base/errors.ts'

/**
 * Returns SQL that fails if a condition is true, which ends a batch: `json()` rejects invalid JSON.
 * @param condition an SQL expression @param name names the assertion in the SQL; must not contain quotes
 */
export const failWhen = (condition: string, name: string): string =>
  `case when ${condition} then json('${name}') end`

/** Whether an error was caused by {@link failWhen}. */
export const isFailedAssertion = (error: unknown): boolean =>
  error instanceof SqlError && /malformed JSON/i.test(error.message)
