import type { Client, Executor, InStatement, ResultSet, Transaction } from '@batonsql/core'
import { expectTypeOf, test } from 'vitest'

declare const db: Client
declare const tx: Transaction

test('a batch has a result for each statement', () => {
  expectTypeOf(db.batch(['select 1', { sql: 'select ?', args: [1] }])).resolves.toEqualTypeOf<
    [ResultSet, ResultSet]
  >()
  const statements: InStatement[] = []
  expectTypeOf(tx.batch(statements)).resolves.toEqualTypeOf<ResultSet[]>()
})

test('the rows of each statement, or of all statements, can have a type', () => {
  expectTypeOf(
    db.batch<[{ id: number }, { total: number }]>(['select id from t', 'select total from u']),
  ).resolves.toEqualTypeOf<[ResultSet<{ id: number }>, ResultSet<{ total: number }>]>()
  expectTypeOf(db.batch<{ id: number }>(['select id from t'])).resolves.toEqualTypeOf<
    ResultSet<{ id: number }>[]
  >()
})

test('a client and a transaction are executors', () => {
  expectTypeOf(db).toExtend<Executor>()
  expectTypeOf(tx).toExtend<Executor>()
})
