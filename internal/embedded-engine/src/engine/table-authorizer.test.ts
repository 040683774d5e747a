import { expect, test } from 'vitest'
import { TableAuthorizer } from './table-authorizer.ts'

test('compares names as SQLite does: only ASCII letters regardless of case', () => {
  const authorizer = new TableAuthorizer([{ tables: ['Key'], actions: ['data_read'] }])
  const names = ['key', 'KEY', '\u212aey', 'keyé']
  expect(names.map((name) => authorizer.allows('data_read', name))).toEqual([true, true, false, false])
  const read = 20
  expect(names.map((name) => authorizer.permits(read, name, 'a'))).toEqual([true, true, false, false])
})
