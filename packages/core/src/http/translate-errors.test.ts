import { describe, expect, test } from 'vitest'
import type { WireError } from '../base/wire.ts'
import { UNUSUAL_ERROR } from './http.ts'
import { translateErrors } from './translate-errors.ts'

function translate(error: WireError): { error: WireError; isTursodb: boolean } {
  const text = JSON.stringify({ results: [{ type: 'error', error }] })
  let isTursodb = false
  const translated = translateErrors(text, () => {
    isTursodb = true
  })
  const { results } = JSON.parse(translated) as { results: [{ error: WireError }] }
  return { error: results[0].error, isTursodb }
}

test.each<[message: string, text: string, code: string, extendedCode?: string]>([
  // as reported by the engine's JavaScript library, by the engine itself, and by its next version
  [
    'step failed: Runtime error: UNIQUE constraint failed: t.a (19)',
    'UNIQUE constraint failed: t.a',
    'SQLITE_CONSTRAINT',
  ],
  [
    'Runtime error: UNIQUE constraint failed: t.(a, b c) (19)',
    'UNIQUE constraint failed: t.a, t.b c',
    'SQLITE_CONSTRAINT',
  ],
  ['UNIQUE constraint failed: t.a', 'UNIQUE constraint failed: t.a', 'SQLITE_CONSTRAINT'],
  [
    'Runtime error: immediate foreign key constraint failed',
    'FOREIGN KEY constraint failed',
    'SQLITE_CONSTRAINT',
  ],
  ['Runtime error: no "way" \\', 'no "way" \\', 'SQLITE_CONSTRAINT'],
  ['Runtime error: integer overflow', 'integer overflow', 'SQLITE_UNKNOWN'],
  ['database is locked', 'database is locked', 'SQLITE_BUSY'],
  ['step failed: Database is busy', 'Database is busy', 'SQLITE_BUSY'],
  ['Write-write conflict', 'Write-write conflict', 'SQLITE_BUSY', 'SQLITE_BUSY_SNAPSHOT'],
  ['near "selec": syntax error', 'near "selec": syntax error', 'SQL_PARSE_ERROR'],
  ['prepare failed: Parse error: no such column: a', 'no such column: a', 'SQL_INPUT_ERROR'],
  ['Transaction error: no such savepoint: a', 'no such savepoint: a', 'SQLITE_UNKNOWN'],
  ['Database is full: no room', 'Database is full: no room', 'SQLITE_FULL'],
  ['step failed: I/O error: short write', 'I/O error: short write', 'SQLITE_IOERR'],
])('Turso’s engine: %s', (message, text, code, extendedCode = null as unknown as string) => {
  expect(UNUSUAL_ERROR.test(JSON.stringify({ message }))).toBe(true)
  const expected = { error: { message: text, code, extended_code: extendedCode }, isTursodb: true }
  expect(translate({ message })).toEqual(expected)
  expect(translate({ message, code: 'SQLITE_UNKNOWN' })).toEqual(expected)
})

const CODED = ['SQLITE_ERROR', 'PREPARE_ERROR', 'EXECUTE_ERROR', 'BATCH_STEP_ERROR']
const PREFIXES = [
  'Error executing statement: ',
  'SQLite error: prepare failed: ',
  'SQLite error: step failed: ',
  'SQLite error: Error executing statement: ',
  'Error executing batch step 3: step failed: ',
  'Request failed: Operation failed: ',
]
const WORDS = [
  ['database is locked', 'SQLITE_BUSY'],
  ['Database is busy', 'SQLITE_BUSY'],
  ['Write-write conflict', 'SQLITE_BUSY'],
  ['near "READONLY": syntax error', 'SQL_PARSE_ERROR'],
  ['Runtime error: UNIQUE constraint failed: t.a (19)', 'SQLITE_CONSTRAINT'],
  ['Runtime error: database is locked', 'SQLITE_CONSTRAINT'],
  ['Runtime error: Parse error: near "READONLY": syntax error', 'SQLITE_CONSTRAINT'],
  ['Runtime error: Error executing statement: database is locked', 'SQLITE_CONSTRAINT'],
  ['CHECK constraint failed: database is locked', 'SQLITE_CONSTRAINT'],
] as const

describe.each(PREFIXES)('a server that adds %s', (prefix) => {
  test.each(WORDS)('%s', (words, code) => {
    const codes: (string | undefined)[] = [...CODED, undefined, 'OTHER']
    if (!prefix.startsWith('SQLite')) codes.push('SQLITE_UNKNOWN')
    for (const wireCode of codes) {
      const error = { message: prefix + words, ...(wireCode && { code: wireCode }) }
      const text = words.replace(/^Runtime error: /, '').replace(' (19)', '')
      expect(translate(error)).toMatchObject({ error: { message: text, code }, isTursodb: true })
      expect(UNUSUAL_ERROR.test(JSON.stringify(error))).toBe(true)
    }
  })
})

test.each(CODED)('other errors with the code %s', (code) => {
  const error = { message: 'Error executing statement: no such table: t', code }
  expect(UNUSUAL_ERROR.test(JSON.stringify(error))).toBe(true)
  expect(translate(error)).toMatchObject({
    error: { message: 'no such table: t', code: 'SQLITE_UNKNOWN' },
    isTursodb: true,
  })
})

test.each([...PREFIXES, '', 'Runtime error: ', 'step failed: Runtime error: '])(
  'the text of RAISE() on libsql-server may be the same: %s',
  (prefix) => {
    for (const [words] of WORDS) {
      const error = { message: `SQLite error: ${prefix}${words}`, code: 'SQLITE_CONSTRAINT' }
      expect(translate(error)).toEqual({ error, isTursodb: false })
    }
  },
)

test("codes from the engine's server are unchanged", () => {
  const codes = { code: 'SQLITE_CONSTRAINT', extended_code: 'SQLITE_CONSTRAINT_PRIMARYKEY' }
  expect(translate({ message: 'Runtime error: UNIQUE constraint failed: t.a (19)', ...codes })).toEqual({
    error: { message: 'UNIQUE constraint failed: t.a', ...codes },
    isTursodb: true,
  })
  const unprefixed = { message: 'UNIQUE constraint failed: t.a', ...codes }
  expect(translate(unprefixed)).toEqual({ error: unprefixed, isTursodb: false })
})

test.each([
  ['UNIQUE constraint failed: t.a', 'SQLITE_CONSTRAINT'],
  ['database is locked', 'SQLITE_BUSY'],
  ['Transaction timed-out', 'TRANSACTION_TIMEOUT'],
  ['SQLite error: no such table: t', 'SQLITE_UNKNOWN'],
  ['no such table: database is locked', 'SQLITE_UNKNOWN'],
  ['transport error: constraint failed', 'PROXY_ERROR'],
  ['transport error', 'PROXY_ERROR'],
])('an error of the primary on a replica: %s', (text, code) => {
  const message = `error executing a request on the primary: ${text}`
  expect(UNUSUAL_ERROR.test(JSON.stringify({ message }))).toBe(true)
  const error = { message: text, code }
  expect(translate({ message, code: 'PROXY_ERROR' })).toEqual({ error, isTursodb: false })
})

test.each([
  ['SQLite error: UNIQUE constraint failed: t.a', 'SQLITE_CONSTRAINT'],
  ['SQLite error: database is locked', 'SQLITE_BUSY'],
  ['SQL string could not be parsed: syntax error around L1:6: `selec`', 'SQL_PARSE_ERROR'],
  ['SQL input error: no such column: a (at offset 7)', 'SQL_INPUT_ERROR'],
  ['Transaction timed-out', 'TRANSACTION_TIMEOUT'],
  ['Operation was blocked: not paid', 'BLOCKED'],
  ['Arguments do not match SQL parameters', 'ARGS_INVALID'],
  ['Response is too large', 'RESPONSE_TOO_LARGE'],
])('libsql-server: %s is unchanged, and does not load the translation', (message, code) => {
  expect(UNUSUAL_ERROR.test(JSON.stringify({ message, code }))).toBe(false)
  expect(translate({ message, code })).toEqual({ error: { message, code }, isTursodb: false })
})

test('explains that libsql-server does not support a transaction mode', () => {
  const message = 'SQL string could not be parsed: syntax error around L1:17: `concurrent`'
  const code = 'SQL_PARSE_ERROR'
  expect(UNUSUAL_ERROR.test(JSON.stringify({ message, code }))).toBe(true)
  expect(translate({ message, code }).error.message).toBe(
    `mode 'concurrent' needs Turso's engine: ${message}`,
  )
})

test('does not change text in values', () => {
  const value = JSON.stringify({
    type: 'text',
    value: '{"message":"Runtime error: UNIQUE constraint failed: t.a (19)"}',
  })
  expect(UNUSUAL_ERROR.test(value)).toBe(false)
  expect(translateErrors(value)).toBe(value)
})

test('the error of a migration on libsql-server stays as it is, although it quotes the error of a statement', () => {
  const message =
    'Schema migration error: migration dry run failed: task 2 for namespace `a` failed with error: An error occured executing the migration at step 3: UNIQUE constraint failed: t.a'
  const error = { message, code: 'SCHEMA_MIGRATION_ERROR' }
  expect(translate(error)).toEqual({ error, isTursodb: false })
})
