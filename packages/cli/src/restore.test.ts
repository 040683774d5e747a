import { RestoreError, SqlError } from '@batonsql/core'
import { expect, test } from 'vitest'
import { getRemedy } from './restore.ts'

test.each([
  ['SQLITE_BUSY', '--resume'],
  ['SQLITE_INTERRUPT', '--resume'],
  ['SQLITE_LOCKED', '--resume'],
  ['PROXY_ERROR', '--resume'],
  ['TRANSACTION_TIMEOUT', '--resume'],
  ['SQLITE_CONSTRAINT', 'correct the file'],
  ['SQLITE_UNKNOWN', 'correct the file'],
  ['SQL_PARSE_ERROR', 'correct the file'],
])('after %s, a restore advises: %s', (code, remedy) => {
  expect(getRemedy(new RestoreError(1, new SqlError({ code, message: '' })))).toContain(remedy)
})
