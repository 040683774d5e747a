import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { copyError, DatabaseError, HttpError, SqlError, TransportError } from './errors.ts'
import { isNotNullViolation, isUniqueViolation } from './violation.ts'

test.each([
  [
    'SQLite error: UNIQUE constraint failed: user.email',
    { kind: 'unique', table: 'user', columns: ['email'] },
    'SQLITE_CONSTRAINT_UNIQUE',
  ],
  [
    'SQLite error: UNIQUE constraint failed: t.a, t.b',
    { kind: 'unique', table: 't', columns: ['a', 'b'] },
    'SQLITE_CONSTRAINT_UNIQUE',
  ],
  [
    'SQLite error: UNIQUE constraint failed: odd "t".a b, odd "t".c.d',
    { kind: 'unique', table: 'odd "t"', columns: ['a b', 'c.d'] },
    'SQLITE_CONSTRAINT_UNIQUE',
  ],
  [
    'SQLite error: UNIQUE constraint failed: odd, t.a, odd, t.b, c',
    { kind: 'unique', table: 'odd, t', columns: ['a', 'b, c'] },
    'SQLITE_CONSTRAINT_UNIQUE',
  ],
  [
    'SQLite error: UNIQUE constraint failed: said by a trigger',
    { kind: 'unique', table: null, columns: [] },
    'SQLITE_CONSTRAINT_UNIQUE',
  ],
  [
    'SQLite error: CHECK constraint failed: t.a > 0.5',
    { kind: 'check', table: null, columns: [] },
    'SQLITE_CONSTRAINT_CHECK',
  ],
  [
    "SQLite error: UNIQUE constraint failed: index 'lower_email'",
    { kind: 'unique', table: null, columns: [] },
    'SQLITE_CONSTRAINT_UNIQUE',
  ],
  [
    'SQLite error: NOT NULL constraint failed: t.a',
    { kind: 'not_null', table: 't', columns: ['a'] },
    'SQLITE_CONSTRAINT_NOTNULL',
  ],
  [
    'SQLite error: CHECK constraint failed: a > 0',
    { kind: 'check', table: null, columns: [] },
    'SQLITE_CONSTRAINT_CHECK',
  ],
  [
    'SQLite error: FOREIGN KEY constraint failed',
    { kind: 'foreign_key', table: null, columns: [] },
    'SQLITE_CONSTRAINT_FOREIGNKEY',
  ],
  ['SQLite error: no more than three', { kind: 'other', table: null, columns: [] }, null],
])('reads %s', (message, constraint, extendedCode) => {
  const error = new SqlError({ message, code: 'SQLITE_CONSTRAINT' })
  expect(error.constraint).toEqual(constraint)
  expect(error.extendedCode).toBe(extendedCode)
})

test("the server's extended code takes precedence", () => {
  const error = new SqlError({
    message: 'UNIQUE constraint failed: t.id',
    code: 'SQLITE_CONSTRAINT',
    extended_code: 'SQLITE_CONSTRAINT_PRIMARYKEY',
  })
  expect(error.extendedCode).toBe('SQLITE_CONSTRAINT_PRIMARYKEY')
})

test('other errors have no constraint', () => {
  expect(new SqlError({ message: 'no such table: t', code: 'SQLITE_UNKNOWN' }).constraint).toBeNull()
  expect(new SqlError({ message: 'x' }).code).toBe('SQLITE_UNKNOWN')
})

test('the statement is available but is not printed', () => {
  const error = new SqlError({ message: 'x', code: 'Y' }, "insert into t values ('secret')", 2, [1])
  expect(error).toMatchObject({ sql: "insert into t values ('secret')", statementIndex: 2, results: [1] })
  expect(inspect(error)).not.toContain('secret')
  expect(JSON.stringify(error)).not.toContain('secret')
})

test.each([
  ['{"error":"Namespace `a` doesn\'t exist"}', "Namespace `a` doesn't exist", null],
  ['{"message":"too slow","code":"STREAM_EXPIRED"}', 'too slow', 'STREAM_EXPIRED'],
  ['plain words', 'plain words', null],
  ['null', 'null', null],
  ['[]', '[]', null],
  ['{"error":{"nested":true}}', '{"error":{"nested":true}}', null],
])('reads the message of the response %s', (body, output, serverCode) => {
  const error = new HttpError(404, 'https://h', body)
  expect(error.message).toContain(`https://h returned HTTP 404: ${output}`)
  expect(error.message).toContain('check the URL')
  expect(error).toMatchObject({ status: 404, body, serverCode, code: 'HTTP_STATUS' })
})

test('omits an HTML page from the message, and truncates the body', () => {
  const error = new HttpError(502, 'https://h', `<html>${'x'.repeat(10_000)}`)
  expect(error.message).toBe('https://h returned HTTP 502')
  expect(error.body).toHaveLength(4_096)
})

test('all errors have a common base class and a name', () => {
  const error = new TransportError('TIMEOUT', 'too slow', 'unknown')
  expect(error).toBeInstanceOf(DatabaseError)
  expect(error).toBeInstanceOf(Error)
  expect(String(error)).toBe('TransportError: too slow')
})

test.each([
  [
    '<html><h1>413 Request Entity Too Large</h1></html>',
    'https://h returned HTTP 413 (a proxy limits the size of requests)',
  ],
  ['', 'https://h returned HTTP 413 (a proxy limits the size of requests)'],
  ['{"error":"a body may have 4 bytes"}', 'https://h returned HTTP 413: a body may have 4 bytes'],
])(
  'HTTP 413 with the body %j comes from a proxy, unless it is in the form of the server',
  (body, message) => {
    const error = new HttpError(413, 'https://h', body)
    expect([error.message, error.outcome]).toEqual([message, 'not_applied'])
  },
)

test.each([
  [300, 'not_applied'],
  [407, 'not_applied'],
  [408, 'unknown'],
  [429, 'not_applied'],
  [500, 'unknown'],
  [501, 'not_applied'],
  [502, 'unknown'],
])('the outcome of HTTP %i is %s', (status, outcome) => {
  expect(new HttpError(status, 'https://h', '').outcome).toBe(outcome)
})

describe('isUniqueViolation', () => {
  const violation = new SqlError({ message: 'UNIQUE constraint failed: t.a, t.b', code: 'SQLITE_CONSTRAINT' })

  test.each<[string, Error]>([
    ['the error', violation],
    ['an error that wraps it', new Error('query failed', { cause: violation })],
    ['one that wraps it twice', new Error('x', { cause: new Error('y', { cause: violation }) })],
  ])('after it, %s has the columns of the constraint, and prints as before', (_, error) => {
    const printed = inspect(error)
    const isUnique: boolean = isUniqueViolation(error)
    expect(isUnique).toBe(true)
    if (isUniqueViolation(error)) expect(error.constraint.columns).toEqual(['a', 'b'])
    expect([isNotNullViolation(error), inspect(error)]).toEqual([false, printed])
  })

  test('accepts an error that cannot be extended, and nothing else', () => {
    expect(isUniqueViolation(Object.freeze(new Error('frozen', { cause: violation })))).toBe(true)
    for (const error of [
      null,
      undefined,
      'UNIQUE constraint failed',
      new Error('UNIQUE constraint failed: t.a'),
    ])
      expect(isUniqueViolation(error)).toBe(false)
  })
})

test.each([
  ['SQL_MANY_STATEMENTS', 'SQL string contains more than one statement', 'use batch(), or executeMultiple()'],
  ['SQL_INPUT_ERROR', 'SQL input error: too many SQL variables (at offset 5)', 'json_each(?)'],
  ['SQLITE_TOOBIG', 'SQLite error: string or blob too big', '5,000,000 bytes'],
  ['ARGS_INVALID', 'Arguments do not match SQL parameters: string or blob too big', '5,000,000 bytes'],
  ['RESPONSE_TOO_LARGE', 'Response is too large', 'readRows()'],
])('the error %s has a hint', (code, message, hint) => {
  const error = new SqlError({ message, code })
  expect(error.message.startsWith(`${message}: `)).toBe(true)
  expect(error.message).toContain(hint)
  expect(new SqlError(error as never).message).toBe(error.message)
  expect(new SqlError({ message: 'no such table: t', code: 'SQLITE_UNKNOWN' }).message).toBe(
    'no such table: t',
  )
})

test('the text of a RAISE() gets no hint', () => {
  const error = { message: 'string or blob too big', code: 'SQLITE_CONSTRAINT' }
  expect(new SqlError(error).message).toBe(error.message)
})

test('a copy with another message has it in its stack', () => {
  const error = new TypeError('Error')
  expect(copyError(error, { message: 'hint: Error' }).stack).toMatch(/^TypeError: hint: Error\n/)
  expect(copyError(error, { outcome: 'unknown' }).stack).toBe(error.stack)
})
