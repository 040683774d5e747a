import { expect, test } from 'vitest'
import { DatabasePool } from './database-pool.ts'

test.each([1, 2])('is closed after the database of test %i was created', async (count) => {
  const pool = await DatabasePool.start()
  const databases = Array.from({ length: count }, () => pool.take(null))
  const [outcomes] = await Promise.all([Promise.allSettled(databases), pool.close()])
  expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'fulfilled'))
})
