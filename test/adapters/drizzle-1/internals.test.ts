import { BatonPreparedQuery, drizzle } from '@batonsql/drizzle-driver/v1'
import { defineRelations, sql } from 'drizzle-orm'
import { alias, integer, sqliteTable } from 'drizzle-orm/sqlite-core'
import { expect, test } from 'vitest'
import {
  codecName,
  findColumn,
  jitCompatCheck,
  prepareBuilder,
  qualifiedName,
} from '../../../packages/drizzle-driver/src/internals.ts'

// These tests fail when Drizzle renames one of the members that it does not declare.

const a = sqliteTable('a', { id: integer() })
const db = drizzle.mock({ relations: defineRelations({ a }) })

test.each([
  ['a select', () => db.select().from(a)],
  ['an insert', () => db.insert(a).values({ id: 1 })],
  ['an update', () => db.update(a).set({ id: 1 })],
  ['a delete', () => db.delete(a)],
  ['a relational query', () => db.query.a.findFirst()],
  ['raw SQL', () => db.values(sql`select 1`)],
])('%s can be prepared for a batch', (_, query) => {
  expect(prepareBuilder(query())).toBeInstanceOf(BatonPreparedQuery)
})

test('finds the table of a column, the codec of an aliased column, and the column that decodes an expression', () => {
  const { id } = alias(a, 'other')
  expect(qualifiedName(a.id)).toBe('a.id')
  expect(codecName(id)).toBe('integer')
  for (const field of [a.id, sql`1`.mapWith(a.id), sql`1`.mapWith(a.id).as('x')])
    expect(findColumn(field)).toBe(a.id)
  for (const field of [sql`1`, sql`1`.mapWith(String), a, null]) expect(findColumn(field)).toBeNull()
})

test('generated mappers can be enabled', () => expect(jitCompatCheck(true)).toBe(true))

test('returns null for a value that is not a query builder', () => {
  for (const value of [null, undefined, 1, {}, a]) expect(prepareBuilder(value)).toBeNull()
})
