import { expect, test } from 'vitest'
import { explainSkipped, getUserStatements } from './page/client-guards.ts'
import type { Outcome, WireRequest } from './page/wire-model.ts'

const request = (statements: readonly (readonly [sql: string, outcome: Outcome])[]): WireRequest =>
  ({
    statements: statements.map(([sql]) => ({ sql, effects: [] })),
    outcomes: statements.map(([, outcome]) => outcome),
  }) as unknown as WireRequest
const shownSql = (statements: readonly (readonly [string, Outcome])[]): string[] =>
  getUserStatements(request(statements)).map(({ sql }) => sql)

test('a batch is shown without the statements that the client added', () => {
  const batch = [
    ['BEGIN IMMEDIATE', 'ok'],
    ['insert into t values (1)', 'ok'],
    ['select 1', 'ok'],
    ['select 2', 'ok'],
    ['COMMIT', 'ok'],
    ['ROLLBACK', 'skipped'],
  ] as const
  expect(shownSql(batch)).toEqual(['insert into t values (1)', 'select 1', 'select 2'])
  expect(explainSkipped({ sql: 'ROLLBACK', effects: [] }, request(batch))).toBe(
    'not needed: the COMMIT succeeded',
  )
})

test('the end of a transaction is shown as a single COMMIT', () => {
  const end = [
    ['COMMIT', 'ok'],
    ['SELECT 1', 'skipped'],
  ] as const
  expect(shownSql(end)).toEqual(['COMMIT'])
  expect(explainSkipped({ sql: 'SELECT 1', effects: [] }, request(end))).toContain(
    'only if the transaction was lost',
  )
})

test('BEGIN and ROLLBACK are shown only if a request has no other statements', () => {
  expect(shownSql([['select 1', 'ok']])).toEqual(['select 1'])
  expect(
    shownSql([
      ['rollback', 'ok'],
      ['select 1', 'ok'],
    ]),
  ).toEqual(['select 1'])
  expect(
    shownSql([
      ['begin', 'ok'],
      ['rollback', 'ok'],
    ]),
  ).toEqual(['begin', 'rollback'])
})

test('explains that a statement was skipped because an earlier one failed', () => {
  const failed = request([
    ['insert into t values (1)', { code: 'SQLITE_CONSTRAINT', message: 'UNIQUE' }],
    ['COMMIT', 'skipped'],
  ])
  expect(explainSkipped({ sql: 'COMMIT', effects: [] }, failed)).toContain('an earlier statement failed')
})
