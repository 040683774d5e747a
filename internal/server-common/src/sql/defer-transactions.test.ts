import { expect, test } from 'vitest'
import { deferTransactions } from './defer-transactions.ts'

test.each([
  ['begin immediate', 'begin DEFERRED'],
  ['/* a */ BEGIN -- b\n EXCLUSIVE transaction', '/* a */ BEGIN -- b\n DEFERRED transaction'],
  [';begin immediate; select 1; BEGIN/**/exclusive', ';begin DEFERRED; select 1; BEGIN/**/DEFERRED'],
])('%s does not acquire the write lock', (sql, expected) => {
  expect(deferTransactions(sql)).toBe(expected)
})

test.each([
  'begin',
  'begin deferred',
  "select 'begin immediate'",
  'select immediate from t',
  'begin "immediate"',
])('%s is unchanged', (sql) => {
  expect(deferTransactions(sql)).toBe(sql)
})
