import { expect } from 'vitest'

/**
 * Runs a write of another client, and asserts that it has not waited for the write lock of a stream that was not closed: a server
 * keeps the lock for such a stream for 5 s. The only bound on elapsed time that a test may have; half a second below those 5 s is
 * for the beginning of the wait, which was before the measurement.
 */
export async function expectNoStall<T>(write: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await write()
  expect(performance.now() - startedAt, 'ms until the write lock was free').toBeLessThan(4_500)
  return result
}
