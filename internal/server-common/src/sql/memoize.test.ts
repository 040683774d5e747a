import { expect, test } from 'vitest'
import { memoize } from './memoize.ts'

test('computes a result once, unless it was evicted by other statements', () => {
  const computed: string[] = []
  const getLength = memoize((sql) => {
    computed.push(sql)
    return sql.length
  })
  for (let round = 0; round < 3; round += 1)
    for (const sql of ['a', 'bb']) expect(getLength(sql)).toBe(sql.length)
  expect(computed).toEqual(['a', 'bb'])
  for (let count = 0; count < 1_000; count += 1) getLength(`select ${count}`)
  getLength('a')
  expect(computed.filter((sql) => sql === 'a')).toHaveLength(2)
})

test('does not cache results for long statements', () => {
  let count = 0
  const counter = memoize(() => {
    count += 1
    return count
  })
  const long = 'x'.repeat(2_001)
  expect([counter(long), counter(long)]).toEqual([1, 2])
})
