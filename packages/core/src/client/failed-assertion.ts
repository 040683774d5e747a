import { SqlError } from '../base/errors.ts'

/**
 * Returns SQL that fails if a condition is true, which ends a batch: `json()` rejects invalid JSON.
 * @param condition an SQL expression
 * @param name names the assertion in the SQL; must contain no quotes and be no valid JSON
 */
export const failWhen = (condition: string, name: string): string =>
  `case when ${condition} then json('${name}') end`

/**
 * Whether an error was caused by {@link failWhen}.
 * @param statementIndex position of the statement with the assertion; other statements may reject JSON of their own
 */
export const isFailedAssertion = (error: unknown, statementIndex: number): boolean =>
  error instanceof SqlError &&
  error.statementIndex === statementIndex &&
  /malformed JSON/i.test(error.message)
