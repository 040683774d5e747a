import { expect, test } from 'vitest'
import { StatementError } from './statement-error.ts'

/** Returns the message, the position, and the text at the caret. */
function parseMessage(message: string, sql: string, start = { line: 1, column: 1 }): string[] {
  const lines = new StatementError(new Error(message), { sql, ...start }, null).message.split('\n')
  const [text = '', caret = ''] = lines.slice(-2)
  return [lines[0] as string, lines[1] as string, text.slice(caret.indexOf('^'))]
}

test.each([
  ['SQL input error: no such column: nope (at offset 7)', 'select nope', 'no such column: nope', 8, 'nope'],
  [
    'SQL input error: no such column: n (at offset 12)',
    "select 'ü', n",
    'no such column: n',
    12,
    ', n'.slice(1),
  ],
  ['could not be parsed: syntax error around L1:15: `t`', 'select 1 frm t', 'syntax error near "t"', 14, 't'],
  [
    'near FROM, "None": syntax error at (1, 15)',
    'select 1, from t',
    'syntax error near "FROM"',
    11,
    'from t',
  ],
  ['bad variable name at (1, 8)', 'select $', 'bad variable name', 8, '$'],
  ['SQLite error: no such table: main.nope', 'select 1 from nope', 'no such table: main.nope', 15, 'nope'],
  ['table t has no column named b', 'insert into t (b) values (1)', 'no column named b', 16, 'b) values (1)'],
  ['SQLite error: malformed JSON', "select json('x')", 'malformed JSON', 1, "select json('x')"],
  ['unexpected end of input at (1, 99)', 'select 1 +', 'unexpected end of input', 11, ''],
])('%s', (message, sql, words, column, textAtCaret) => {
  const [output, position, actualText] = parseMessage(message, sql)
  expect([position, actualText]).toEqual([`line 1, column ${column}:`, textAtCaret])
  expect(output).toContain(words)
})

test('strips the carriage return of a Windows line break', () => {
  expect(parseMessage('x (at offset 7)', 'select a,\r\n  b')).toEqual(['x', 'line 1, column 8:', 'a,'])
})

test('the position is relative to the script, and a long line is truncated around it', () => {
  expect(parseMessage('x (at offset 9)', 'select\n  nope', { line: 7, column: 5 }).slice(1)).toEqual([
    'line 8, column 3:',
    'nope',
  ])
  const longSql = `select ${'1, '.repeat(2_000)}nope`
  const error = new StatementError(
    new Error(`x (at offset ${longSql.length - 4})`),
    { sql: longSql, line: 1, column: 1 },
    'a.sql',
  )
  const lines = error.message.split('\n')
  expect(lines[1]).toBe(`a.sql:1:${longSql.length - 3}:`)
  expect(lines.every((line) => line.length < 110)).toBe(true)
  expect(lines[2]?.slice(lines[3]?.indexOf('^'))).toBe('nope')
})
