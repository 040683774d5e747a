import { drizzle } from '@batonsql/drizzle-driver/v1'
import { defineRelations, sql } from 'drizzle-orm'
import { integer, sqliteTable } from 'drizzle-orm/sqlite-core'
import { expect, test } from 'vitest'
import {
  internalsOf,
  jitCompatCheck,
  prepareBuilder,
} from '../../packages/drizzle-driver/src/v1/internals.ts'

// These fail when Drizzle renames one of the members it does not declare.

const a = sqliteTable('a', { id: integer() })
const db = drizzle.mock({ relations: defineRelations({ a }) })

test.each([
  ['a select', 'all', () => db.select().from(a)],
  ['an insert', 'run', () => db.insert(a).values({ id: 1 })],
  ['an update', 'run', () => db.update(a).set({ id: 1 })],
  ['a delete', 'run', () => db.delete(a)],
  ['a relational query', 'all', () => db.query.a.findFirst()],
  ['raw SQL', 'values', () => db.values(sql`select 1`)],
])('%s can be prepared for a batch', (_, executeMethod, query) => {
  const prepared = prepareBuilder(query())
  expect(internalsOf(prepared!).executeMethod).toBe(executeMethod)
})

test('a select knows how its rows become objects', () => {
  expect(internalsOf(prepareBuilder(db.select().from(a))!).mapper?.([[1]])).toEqual([{ id: 1 }])
})

test('generated mappers can be asked for', () => expect(jitCompatCheck(true)).toBe(true))

test('what is no query builder is told apart', () => {
  for (const other of [null, undefined, 1, {}, a]) expect(prepareBuilder(other)).toBeNull()
})
