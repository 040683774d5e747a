import type { PipelineRequest } from '@batonsql/server-common/hrana'
import { expect, test } from 'vitest'
import { mayWrite } from './may-write.ts'

const statement = (sql: string | null, sqlId: number | null = null) => ({
  sql,
  sqlId,
  args: [],
  namedArgs: [],
})

/** Creates one request of each kind that runs a statement. */
function createRequests(sql: string): readonly PipelineRequest[] {
  return [
    { type: 'execute', statement: statement(sql) },
    {
      type: 'batch',
      steps: [
        { statement: statement('SELECT 1'), condition: null },
        { statement: statement(sql), condition: null },
      ],
    },
    { type: 'sequence', sql: `SELECT 1; ${sql}`, sqlId: null },
  ]
}

test.each([
  ['SELECT 1', false, false],
  ['WITH c AS (SELECT 1) SELECT * FROM c', false, false],
  ['BEGIN', false, false],
  ['COMMIT', false, true],
  ['RELEASE s', false, true],
  ['BEGIN IMMEDIATE', true, true],
  ['INSERT INTO t VALUES (1)', true, true],
  ['WITH c AS (SELECT 1) DELETE FROM t', true, true],
  ['CREATE TABLE t (a)', true, true],
  ['PRAGMA user_version = 7', true, true],
  ["this is 'no SQL", false, false],
])('%s may write on a new stream: %s, on a continued one: %s', (sql, onNew, onContinued) => {
  for (const request of createRequests(sql))
    expect([request.type, mayWrite([request], false), mayWrite([request], true)]).toEqual([
      request.type,
      onNew,
      onContinued,
    ])
})

test('stored SQL, and SQL that is too long to be parsed, count as writes', () => {
  const longSql = `SELECT '${'x'.repeat(200_000)}'`
  expect(mayWrite([{ type: 'execute', statement: statement(null, 1) }], false)).toBe(true)
  expect(mayWrite([{ type: 'sequence', sql: longSql, sqlId: null }], false)).toBe(true)
  expect(mayWrite([{ type: 'describe', sql: 'DROP TABLE t', sqlId: null }], false)).toBe(false)
})
