import { expect, test } from 'vitest'
import { STREAM_IDLE_MS, TRANSACTION_WINDOW_MS } from './limits.ts'

test('the service gives a transaction less time than a stream', () => {
  expect(TRANSACTION_WINDOW_MS).toBeLessThan(STREAM_IDLE_MS)
})
