import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ACCEPTED_DIFFERENCES, NOT_REPLAYED } from './accepted-differences.ts'

test('the tests mentioned in the reasons exist', () => {
  const reasons = Object.values({ ...ACCEPTED_DIFFERENCES, ...NOT_REPLAYED }).join('\n')
  const mentioned = reasons.match(/[\w./-]+\.test\.ts/g) ?? []
  expect(mentioned.length).toBeGreaterThan(5)
  const folders = ['../../', './']
  const missing = mentioned.filter(
    (name) => !folders.some((folder) => existsSync(new URL(folder + name, import.meta.url))),
  )
  expect(missing).toEqual([])
})
