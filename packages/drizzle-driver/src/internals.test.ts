import { eq, sql } from 'drizzle-orm'
import { integer, SQLitePreparedQuery, SQLiteSession, sqliteTable } from 'drizzle-orm/sqlite-core'
import { expect, test } from 'vitest'
import { drizzle } from './driver.ts'
import {
  findColumn,
  joinsNotNullableMap,
  mapResultRow,
  prepareBuilder,
  qualifiedName,
  queryWithCache,
} from './internals.ts'
import { BatonPreparedQuery } from './prepared-query.ts'

// These tests fail when Drizzle renames one of the members that it does not declare.

const a = sqliteTable('a', { id: integer() })
const b = sqliteTable('b', { id: integer() })
const db = drizzle.mock({ schema: { a } })

test.each([
  ['a select', () => db.select().from(a)],
  ['an insert', () => db.insert(a).values({ id: 1 })],
  ['an update', () => db.update(a).set({ id: 1 })],
  ['a delete', () => db.delete(a)],
  ['a relational query', () => db.query.a.findFirst()],
])('%s can be prepared for a batch', (_, query) => {
  expect(prepareBuilder(query())).toBeInstanceOf(BatonPreparedQuery)
})

test('raw SQL can be prepared for a batch', () => {
  expect(prepareBuilder(db.run(sql`select 1`))?.getQuery()).toMatchObject({ sql: 'select 1', params: [] })
  for (const method of ['Run', 'All', 'Get', 'Values'])
    expect(SQLiteSession.prototype).toHaveProperty(`extractRaw${method}ValueFromBatchResult`)
})

test('a prepared join records which tables can be missing, and maps its rows accordingly', () => {
  const join = db.select().from(a).leftJoin(b, eq(a.id, b.id))
  const joins = joinsNotNullableMap(prepareBuilder(join) as BatonPreparedQuery)
  expect(joins).toEqual({ a: true, b: false })
  const fields = [
    { path: ['a', 'id'], field: a.id },
    { path: ['b', 'id'], field: b.id },
  ]
  expect(mapResultRow(fields, [1, null], joins)).toEqual({ a: { id: 1 }, b: null })
})

test('a prepared query uses the cache', async () => {
  expect(SQLitePreparedQuery.prototype).toHaveProperty('queryWithCache')
  const query = prepareBuilder(db.select().from(a)) as BatonPreparedQuery
  expect(await queryWithCache(query, 'select', [], async () => 7)).toBe(7)
})

test('the table of a column is found, even if the column is the decoder of an expression', () => {
  expect(qualifiedName(a.id)).toBe('a.id')
  for (const field of [a.id, sql`1`.mapWith(a.id), sql`1`.mapWith(a.id).as('x')])
    expect(findColumn(field)).toBe(a.id)
  for (const field of [sql`1`, sql`1`.mapWith(String), a, null]) expect(findColumn(field)).toBeNull()
})

test('returns null for a value that is not a query builder', () => {
  for (const value of [null, undefined, 1, {}, a]) expect(prepareBuilder(value)).toBeNull()
})
