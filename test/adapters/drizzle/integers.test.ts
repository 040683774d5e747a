import { type BatonDatabase, drizzle, findDatabaseError, int64 } from '@batonsql/drizzle-driver'
import { eq, max, relations, sql } from 'drizzle-orm'
import { alias, integer, numeric, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

// Integers that no JavaScript number represents exactly. They are never rounded, and never returned as a bigint where the type is
// number.

const UNSAFE_INTEGER = 2n ** 53n + 1n
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
const schema = {
  owners,
  things,
  parts,
  ownersRelations: relations(owners, ({ many }) => ({ things: many(things) })),
  thingsRelations: relations(things, ({ one, many }) => ({
    owner: one(owners, { fields: [things.ownerId], references: [owners.id] }),
    parts: many(parts),
  })),
  partsRelations: relations(parts, ({ one }) => ({
    thing: one(things, { fields: [parts.thingId], references: [things.id] }),
  })),
}
let db: BatonDatabase<typeof schema>

beforeAll(async () => {
  const server = await openTestServer()
  db = drizzle({ connection: (await server.createDatabase()).config, schema })
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
      `owners.plain_int: ${UNSAFE_INTEGER} is not exact as a number; declare the column with int64()`,
    )
  })

  test.each(['at', 'amount'])('for the column %s', async (column) => {
    await db.run(sql`update things set ${sql.identifier(column)} = ${UNSAFE_INTEGER}`)
    for (const query of [
      () => db.select().from(things),
      () => db.query.things.findFirst(),
      () => db.query.owners.findFirst({ with: { things: true } }),
    ])
      await expect(query()).rejects.toThrow(`things.${column}: ${UNSAFE_INTEGER} is not exact`)
  })
})

test.each([1e300, 1.5])('numbers that are not integers are not affected: %d', async (plain) => {
  await db.run(sql`update things set plain = ${plain}, at = 5, amount = 1.5`)
  const expected = { plain, at: new Date(5), amount: 1.5 }
  expect(await db.select().from(things)).toMatchObject([expected])
  expect(await db.query.things.findMany()).toMatchObject([expected])
  expect(await db.query.owners.findMany({ with: { things: true } })).toMatchObject([{ things: [expected] }])
})

test('REAL values keep all digits at every depth of a relational query', async () => {
  const samples = sqliteTable('samples', {
    id: integer().primaryKey(),
    ownerId: integer('owner_id'),
    real: real('real_value'),
    integer: integer(),
    text: numeric(),
  })
  const dbWithSamples = drizzle({
    client: db.$client,
    schema: {
      owners,
      samples,
      ownersRelations: relations(owners, ({ many }) => ({ samples: many(samples) })),
      samplesRelations: relations(samples, ({ one }) => ({
        owner: one(owners, { fields: [samples.ownerId], references: [owners.id] }),
      })),
    },
  })
  await dbWithSamples.run(sql`create table if not exists samples
    (id integer primary key, owner_id integer, real_value real, integer integer, text numeric)`)
  const double = fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0))
  const property = fc.asyncProperty(fc.array(double, { minLength: 1 }), async (values) => {
    await dbWithSamples.delete(samples)
    const rows = values.map((value, id) => ({
      id,
      ownerId: 1,
      real: value,
      // beyond 2^53 an integer column throws
      integer: Math.abs(value) > 2 ** 53 && Math.abs(value) < 2 ** 63 ? 0 : value,
      text: String(value),
    }))
    await dbWithSamples.insert(samples).values(rows)
    const bySelect = await dbWithSamples.select().from(samples).orderBy(samples.id)
    expect(bySelect.map(({ real: value }) => value)).toEqual(values)
    for (const settings of [{}, { limit: values.length }]) {
      const orderBy = samples.id
      const [owner] = await dbWithSamples.query.owners.findMany({
        with: { samples: { ...settings, orderBy, with: { owner: { with: { samples: { orderBy } } } } } },
      })
      const inner = owner?.samples[0]?.owner
      expect(inner?.samples).toEqual(bySelect)
      expect(owner?.samples).toEqual(bySelect.map((sample) => ({ ...sample, owner: inner })))
    }
  })
  await fc.assert(property, {
    numRuns: 20,
    examples: [[[0.30000000000000004, 0.1, 1 / 3, 5e-324, Number.MAX_VALUE, 1e21, 123456789.12345679]]],
  })
})

test('text and infinity in number columns are read as before', async () => {
  await db.run(sql`update things set plain = '"text"'`)
  const [owner] = await db.query.owners.findMany({ with: { things: true } })
  expect(owner?.things).toMatchObject([{ plain: '"text"' }])
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
