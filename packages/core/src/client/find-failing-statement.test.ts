import { expect, test } from 'vitest'
import { SqlError } from '../base/errors.ts'
import { findFailingStatement } from './find-failing-statement.ts'

const rejected = new SqlError({ message: 'near "selec": syntax error', code: 'SQL_PARSE_ERROR' })
const stopped = new SqlError({ message: 'malformed JSON', code: 'SQLITE_ERROR' }, 'x', 0)

/** Creates a server that parses a whole batch before it runs the first statement, which then fails. */
function createServer() {
  const attempts: string[][] = []
  const batch = async ([first, ...rest]: string[]): Promise<never> => {
    attempts.push(rest)
    expect(first).toContain('json(')
    throw rest.some((sql) => sql.startsWith('selec ')) ? rejected : stopped
  }
  return { attempts, batch }
}
const statements = (count: number, invalid: readonly number[]): { sql: string }[] =>
  Array.from({ length: count }, (_, index) => ({
    sql: invalid.includes(index) ? `selec ${index}` : `select ${index}`,
  }))

test.each([
  [1, [0]],
  [2, [1]],
  [3, [0]],
  [7, [6]],
  [100, [63]],
  [100, [20, 80]],
])('in %i statements, finds the first invalid one (%j)', async (count, invalid) => {
  const { attempts, batch } = createServer()
  const error = await findFailingStatement(rejected, statements(count, invalid), { batch })
  expect(error).toMatchObject({ statementIndex: invalid[0], sql: `selec ${invalid[0]}`, code: rejected.code })
  expect((error as Error).message).toBe(rejected.message)
  expect((error as Error).stack).toContain('find-failing-statement.test.ts')
  expect((error as Error).stack).toContain(`SQL: selec ${invalid[0]}\n`)
  expect(attempts.length).toBeLessThanOrEqual(Math.ceil(Math.log2(count)) + 1)
})

test('an error that already has a position, or is of another kind, is unchanged and causes no request', async () => {
  for (const error of [
    new SqlError({ message: 'x', code: 'SQL_PARSE_ERROR' }, 'x', 2),
    new SqlError({ message: 'no such table: x', code: 'SQLITE_ERROR' }),
    new TypeError('x'),
    'x',
  ]) {
    const { attempts, batch } = createServer()
    expect(await findFailingStatement(error, statements(3, [1]), { batch })).toBe(error)
    expect(attempts).toEqual([])
  }
})

test('the error is unchanged if no invalid statement is found, or if the search fails', async () => {
  expect(await findFailingStatement(rejected, statements(5, []), createServer())).toBe(rejected)
  expect(await findFailingStatement(rejected, [], createServer())).toBe(rejected)
  const unreachable = async (): Promise<never> => {
    throw new Error('unreachable')
  }
  expect(await findFailingStatement(rejected, statements(5, [1]), { batch: unreachable })).toBe(rejected)
})
