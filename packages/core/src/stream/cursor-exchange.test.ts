import { expect, test } from 'vitest'
import { HttpError, SqlError } from '../base/errors.ts'
import { rejectionError } from './cursor-exchange.ts'

const rejection = (status: number, text: string): Error =>
  rejectionError(status, 'http://x/v3/cursor', text, null, 'selec 1')

test('a statement that does not parse is an SqlError, every other rejection an HttpError', () => {
  const text = '{"error":"SQL string could not be parsed: near SELEC: syntax error"}'
  const error = rejection(500, text)
  expect(error).toBeInstanceOf(SqlError)
  expect(error).toMatchObject({
    code: 'SQL_PARSE_ERROR',
    sql: 'selec 1',
    message: expect.stringContaining('could not be parsed: near SELEC'),
  })
  expect(rejection(400, text)).toBeInstanceOf(HttpError)
  expect(rejection(500, 'out of memory')).toBeInstanceOf(HttpError)
  expect(rejection(500, '')).toMatchObject({ status: 500 })
})
