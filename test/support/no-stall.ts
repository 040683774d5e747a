import { expect } from 'vitest'

/**
 * Runs a write of another client, and asserts that it did not wait for the write lock of an unclosed stream: a server holds the
 * lock for such a stream for 5 s. This is the only limit on elapsed time that a test may have. It is half a second below 5 s,
 * because the wait begins before the measurement.
 */
export async function expectNoStall<T>(write: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await write()
  expect(performance.now() - startedAt, 'ms until the write lock was free').toBeLessThan(4_500)
  return result
}
