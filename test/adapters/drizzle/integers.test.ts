import { type BatonDatabase, drizzle, findDatabaseError, int64 } from '@batonsql/drizzle-driver'
import * as orm from 'drizzle-orm'
import { eq, max, sql } from 'drizzle-orm'
import { alias, integer, numeric, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

// These tests run on all versions of Drizzle.

// Integers that no JavaScript number represents exactly. They are never rounded, and never returned as a bigint where the type is
// number.

// oxlint-disable-next-line typescript/no-explicit-any -- only 1.0 has its type
type DefineRelations = (tables: object, define: (r: any) => object) => object
const defineRelations = Reflect.get(orm, 'defineRelations') as DefineRelations | undefined
const UNSAFE_INTEGER = 2n ** 53n + 1n
/** The integer in an error; nested in rows of 1.0, it may be rounded. */
const INEXACT = defineRelations
  ? `(?:${UNSAFE_INTEGER}|about ${UNSAFE_INTEGER - 1n})`
  : String(UNSAFE_INTEGER)
const owners = sqliteTable('owners', {
  id: integer().primaryKey(),
  big: int64(),
  plain: integer('plain_int'),
  note: text(),
})
const things = sqliteTable('things', {
  id: integer().primaryKey(),
  ownerId: integer('owner_id'),
  big: int64(),
  plain: integer(),
  at: integer({ mode: 'timestamp_ms' }),
  amount: numeric({ mode: 'number' }),
  note: text(),
})
const parts = sqliteTable('parts', { thingId: integer('thing_id'), big: int64(), plain: integer() })
const createSchema = () => ({
  owners,
  things,
  parts,
  ownersRelations: orm.relations(owners, ({ many }) => ({ things: many(things) })),
  thingsRelations: orm.relations(things, ({ one, many }) => ({
    owner: one(owners, { fields: [things.ownerId], references: [owners.id] }),
    parts: many(parts),
  })),
  partsRelations: orm.relations(parts, ({ one }) => ({
    thing: one(things, { fields: [parts.thingId], references: [things.id] }),
  })),
})
type Schema = ReturnType<typeof createSchema>
/** The relations, as the version of Drizzle declares them. */
const options = defineRelations
  ? {
      relations: defineRelations({ owners, things, parts }, (r) => ({
        owners: { things: r.many.things() },
        things: { owner: r.one.owners({ from: r.things.ownerId, to: r.owners.id }), parts: r.many.parts() },
        parts: { thing: r.one.things({ from: r.parts.thingId, to: r.things.id }) },
      })),
    }
  : { schema: createSchema() }
let db: BatonDatabase<Schema>

beforeAll(async () => {
  const server = await openTestServer()
  db = drizzle({ connection: (await server.createDatabase()).config, ...(options as { schema: Schema }) })
  await db.batch([
    db.run(sql`create table owners (id integer primary key, big integer, plain_int integer, note text)`),
    db.run(
      sql`create table things (id integer primary key, owner_id, big integer, plain integer, at integer, amount numeric, note text)`,
    ),
    db.run(sql`create table parts (thing_id integer, big integer, plain integer)`),
  ])
})
afterAll(() => db.$client.close())

beforeEach(async () => {
  await db.batch([db.delete(owners), db.delete(things), db.delete(parts)])
  await db.batch([
    db.insert(owners).values({ id: 1, big: UNSAFE_INTEGER, note: `[${UNSAFE_INTEGER}]` }),
    db
      .insert(things)
      .values({ id: 1, ownerId: 1, big: -UNSAFE_INTEGER, note: `[${UNSAFE_INTEGER}, "a\\n"]` }),
    db.insert(parts).values({ thingId: 1, big: 2n ** 63n - 1n }),
  ])
})

test('int64() is exact at every depth of a relational query, and text is unchanged', async () => {
  const result = await db.query.owners.findFirst({ with: { things: { with: { parts: true, owner: true } } } })
  const owner = { id: 1, big: UNSAFE_INTEGER, plain: null, note: `[${UNSAFE_INTEGER}]` }
  expect(result).toEqual({
    ...owner,
    things: [
      {
        id: 1,
        ownerId: 1,
        big: -UNSAFE_INTEGER,
        plain: null,
        at: null,
        amount: null,
        note: `[${UNSAFE_INTEGER}, "a\\n"]`,
        parts: [{ thingId: 1, big: 2n ** 63n - 1n, plain: null }],
        owner,
      },
    ],
  })
  await db.update(owners).set({ note: '[12345678901234567, not JSON' })
  expect(
    await db.query.things.findMany({ columns: {}, with: { owner: { columns: { note: true } } } }),
  ).toEqual([{ owner: { note: '[12345678901234567, not JSON' } }])
  const sameDigits = { note: '1234567890123456', plain: 1_234_567_890_123_456 }
  await db.update(things).set(sameDigits)
  expect(await db.query.owners.findFirst({ with: { things: true } })).toMatchObject({ things: [sameDigits] })
})

describe('the error names the column', () => {
  test.each<[string, () => PromiseLike<unknown>]>([
    ['in a select', () => db.select().from(owners)],
    ['in a partial select', () => db.select({ a: { b: owners.plain } }).from(owners)],
    [
      'under an alias of the column',
      () => db.select({ x: sql`plain_int`.mapWith(owners.plain).as('x') }).from(owners),
    ],
    ['in an aggregate', () => db.select({ most: max(owners.plain) }).from(owners)],
    ['in a join', () => db.select().from(things).leftJoin(owners, eq(owners.id, things.ownerId))],
    ['under an alias of the table', () => db.select().from(alias(owners, 'other'))],
    ['in get()', () => db.select().from(owners).get()],
    ['in returning', () => db.update(owners).set({ note: 'x' }).returning()],
    ['in a batch', () => db.batch([db.select().from(owners)])],
    ['in a relational query', () => db.query.owners.findFirst()],
    ['in a nested relation', () => db.query.things.findMany({ with: { owner: true } })],
    ['two levels deep', () => db.query.parts.findMany({ with: { thing: { with: { owner: true } } } })],
    [
      'in a batch of relational queries',
      () => db.batch([db.query.parts.findFirst({ with: { thing: { with: { owner: true } } } })]),
    ],
    ['in a transaction', () => db.transaction((tx) => tx.query.owners.findFirst())],
  ])('%s', async (_, query) => {
    await query()
    await db.run(sql`update owners set plain_int = ${UNSAFE_INTEGER}`)
    await expect(query()).rejects.toThrow(
      new RegExp(
        `owners\\.plain_int: ${INEXACT} is not exact as a number; declare the column with int64\\(\\)$`,
      ),
    )
  })

  test.each(['at', 'amount'])('for the column %s', async (column) => {
    await db.run(sql`update things set ${sql.identifier(column)} = ${UNSAFE_INTEGER}`)
    for (const query of [
      () => db.select().from(things),
      () => db.query.things.findFirst(),
      () => db.query.owners.findFirst({ with: { things: true } }),
    ])
      await expect(query()).rejects.toThrow(new RegExp(`things\\.${column}: ${INEXACT} is not exact`))
  })
})

test.each([1e300, 1.5])('numbers that are not integers are not affected: %d', async (plain) => {
  await db.run(sql`update things set plain = ${plain}, at = 5.5, amount = 1.5`)
  const expected = { plain, at: new Date(5.5), amount: 1.5 }
  expect(await db.select().from(things)).toMatchObject([expected])
  expect(await db.query.things.findMany()).toMatchObject([expected])
  expect(await db.query.owners.findMany({ with: { things: true } })).toMatchObject([{ things: [expected] }])
})

test('text, infinity and null in number columns are read as before', async () => {
  await db.run(sql`update things set plain = '"text"', amount = '', at = null`)
  const [owner] = await db.query.owners.findMany({ with: { things: true } })
  expect(owner?.things).toMatchObject([{ plain: '"text"', at: null }])
  await db.run(sql`update things set plain = 9e999`)
  const [infinite] = await db.query.owners.findMany({ with: { things: true } })
  expect(infinite?.things).toMatchObject([{ plain: Number.POSITIVE_INFINITY }])
})

test('the error is not reported as a failed query', async () => {
  await db.run(sql`update owners set plain_int = ${UNSAFE_INTEGER}`)
  const error: unknown = await db.query.owners.findFirst().catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(RangeError)
  expect(findDatabaseError(error)).toBeNull()
})
