import { BatonAdapter, BatonIntrospector } from '@batonsql/kysely-dialect'
import * as kysely from 'kysely'
import { expect, inject, test } from 'vitest'

test('the tests and the dialect use the Kysely of this project', () => {
  const expectedExports = {
    '0.28': { Migrator: true, AbortedTransactionError: false, QueryFinalizer: false },
    '0.29': { Migrator: false, AbortedTransactionError: true, QueryFinalizer: true },
    '0.30': { Migrator: false, AbortedTransactionError: false, QueryFinalizer: true },
  }[inject('kysely')]
  for (const [name, isExported] of Object.entries(expectedExports))
    expect([name, name in kysely]).toEqual([name, isExported])
  expect(new BatonAdapter()).toBeInstanceOf(kysely.SqliteAdapter)
  expect(BatonIntrospector.prototype).toBeInstanceOf(kysely.SqliteIntrospector)
})
