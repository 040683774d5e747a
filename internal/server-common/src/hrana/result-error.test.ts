import { expect, test } from 'vitest'
import { formatInternalMessage } from './result-error.ts'

test.each([
  [
    'SQL_INPUT_ERROR',
    'SQL input error: no such table: t (at offset 14)',
    'no such table: t in SELECT * FROM t at offset 14',
  ],
  ['SQL_INPUT_ERROR', 'SQLite error: no such table: t', 'no such table: t'],
  ['SQLITE_CONSTRAINT', 'SQLite error: UNIQUE constraint failed: t.a', 'UNIQUE constraint failed: t.a'],
  [
    'ARGS_INVALID',
    'Arguments do not match SQL parameters: value for parameter 1 not found',
    'LibSQL failed to bind provided query parameters: `value for parameter 1 not found`',
  ],
])('returns libsql-server’s internal message for an error with the code %s: %s', (code, message, text) => {
  expect(formatInternalMessage({ code, message }, 'SELECT * FROM t')).toBe(text)
})
