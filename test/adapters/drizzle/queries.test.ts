import { createClient } from '@batonsql/core'
import {
  cosineDistance,
  drizzle,
  euclideanDistance,
  findDatabaseError,
  findViolation,
  int64,
  isCheckViolation,
  isForeignKeyViolation,
  isNotNullViolation,
  isUniqueViolation,
  vector,
} from '@batonsql/drizzle-driver'
import { and, eq, gt, sql } from 'drizzle-orm'
import {
  blob,
  getTableConfig,
  integer,
  numeric,
  real,
  sqliteTable,
  text,
  withReplicas,
} from 'drizzle-orm/sqlite-core'
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import { countRequests } from '../../support/fixtures.ts'
import { openTestServer } from '../../support/test-server.ts'

// These run on all versions of Drizzle.

const users = sqliteTable('users', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  isAdmin: integer('is_admin', { mode: 'boolean' }).notNull().default(false),
  bornAt: integer('born_at', { mode: 'timestamp_ms' }),
})
const posts = sqliteTable('posts', {
  id: integer().primaryKey(),
  authorId: integer('author_id').references(() => users.id, { onDelete: 'cascade' }),
  title: text().notNull(),
})
const kinds = sqliteTable('kinds', {
  id: integer().primaryKey(),
  big: int64(),
  int: integer(),
  real: real(),
  numeric: numeric(),
  json: text({ mode: 'json' }).$type<{ a: number }>(),
  seconds: integer({ mode: 'timestamp' }),
  bytes: blob({ mode: 'buffer' }),
  blobJson: blob('blob_json', { mode: 'json' }).$type<number[]>(),
  blobBigint: blob('blob_bigint', { mode: 'bigint' }),
})

const ada = { id: 1, name: 'Ada', isAdmin: false, bornAt: new Date(5) }
const database = await (await openTestServer()).createDatabase()
let log: string[] = []
const db = drizzle({ connection: database.config, logger: { logQuery: (query) => void log.push(query) } })
afterAll(() => db.$client.close())

beforeAll(async () => {
  await db.batch([
    db.run(sql`create table users (id integer primary key autoincrement, name text not null unique,
      is_admin integer not null default 0, born_at integer)`),
    db.run(sql`create table posts (id integer primary key, author_id integer references users (id) on delete cascade,
      title text not null)`),
    db.run(sql`create table kinds (id integer primary key, big integer, int integer, real real, numeric numeric,
      json text, seconds integer, bytes blob, blob_json blob, blob_bigint blob)`),
  ])
})
beforeEach(async () => {
  await db.delete(users)
  await db.delete(posts)
  log = []
})

const countRequestsOf = (work: () => Promise<unknown>): Promise<number> => countRequests(database, work)
const insertAdaAndBob = () => db.insert(users).values([ada, { id: 2, name: 'Bob' }])

describe('query builders', () => {
  test('a select is one request', async () => {
    await db.insert(users).values({ id: 1, name: 'Ada', bornAt: new Date(5) })
    expect(await countRequestsOf(async () => await db.select().from(users))).toBe(1)
    expect(await db.select().from(users)).toEqual([ada])
    expect(await db.select().from(users).where(eq(users.name, 'x')).get()).toBeUndefined()
    expect(await db.$count(users)).toBe(1)
  })

  test('supports returning, upserts, updates and deletes, and counts the changed rows', async () => {
    const [ada] = await db.insert(users).values({ name: 'Ada' }).returning()
    expect(ada).toMatchObject({ name: 'Ada', isAdmin: false, bornAt: null })
    const upserted = await db
      .insert(users)
      .values({ name: 'Ada' })
      .onConflictDoUpdate({ target: users.name, set: { isAdmin: true } })
      .returning({ isAdmin: users.isAdmin })
    expect(upserted).toEqual([{ isAdmin: true }])
    const inserted = await db.insert(users).values({ id: 77, name: 'Grace' })
    const noRows = { columns: [], columnTypes: [], rows: [] }
    expect(inserted).toEqual({ ...noRows, rowsAffected: 1, lastInsertRowid: 77n })
    expect(JSON.parse(JSON.stringify(inserted))).toMatchObject({ lastInsertRowid: '77', rowsAffected: 1 })
    const large = await db.run(sql`select 9007199254740993 as a`)
    expect(JSON.parse(JSON.stringify(large))).toMatchObject({ rows: [{ a: '9007199254740993' }] })
    expect(Object.keys(inserted)).toEqual([...Object.keys(noRows), 'rowsAffected', 'lastInsertRowid'])
    const updated = await db.update(users).set({ isAdmin: false })
    expect(updated).toMatchObject({ rowsAffected: 2, lastInsertRowid: undefined })
    const deleted = await db.delete(users).where(eq(users.name, 'Ada')).returning({ name: users.name })
    expect(deleted).toEqual([{ name: 'Ada' }])
  })

  test('joins separate columns of the same name, and a missing side is null', async () => {
    await insertAdaAndBob()
    await db.insert(posts).values({ id: 10, authorId: 1, title: 'Notes' })
    const isAuthor = eq(posts.authorId, users.id)
    expect(await db.select().from(users).leftJoin(posts, isAuthor).orderBy(users.id)).toEqual([
      { users: expect.objectContaining({ id: 1 }) as object, posts: { id: 10, authorId: 1, title: 'Notes' } },
      { users: expect.objectContaining({ id: 2 }) as object, posts: null },
    ])
    const selected = db.select({ user: { id: users.id }, post: posts.id })
    expect(await selected.from(users).innerJoin(posts, isAuthor)).toEqual([{ user: { id: 1 }, post: 10 }])
  })

  test('prepared queries can be executed repeatedly with different values', async () => {
    await insertAdaAndBob()
    const findById = db
      .select({ name: users.name })
      .from(users)
      .where(eq(users.id, sql.placeholder('id')))
      .prepare()
    expect(await findById.get({ id: 1 })).toEqual({ name: 'Ada' })
    expect(await findById.all({ id: 2 })).toEqual([{ name: 'Bob' }])
    // Drizzle 1.0 throws synchronously
    await expect((async () => await findById.execute())()).rejects.toThrow('placeholder "id"')
    const insert = db
      .insert(users)
      .values({ name: sql.placeholder('name'), bornAt: sql.placeholder('at') })
      .prepare()
    await expect((async () => await insert.run({ name: 'Carl' }))()).rejects.toThrow('placeholder "at"')
    await insert.run({ name: 'Carl', at: new Date(9) })
    const carl = db.select({ at: users.bornAt }).from(users).where(eq(users.name, 'Carl'))
    expect(await carl).toEqual([{ at: new Date(9) }])
  })

  test('supports subqueries, CTEs and set operations', async () => {
    await insertAdaAndBob()
    const later = db.$with('later').as(db.select().from(users).where(gt(users.id, 1)))
    expect(await db.with(later).select({ name: later.name }).from(later)).toEqual([{ name: 'Bob' }])
    const byId = (id: number) => db.select({ name: users.name }).from(users).where(eq(users.id, id))
    expect(await byId(1).union(byId(2))).toHaveLength(2)
  })

  test('the logger receives every query', async () => {
    await db.select({ id: users.id }).from(users)
    await db.run(sql`select 1`)
    expect(log).toEqual(['select "id" from "users"', 'select 1'])
  })
})

describe('raw SQL', () => {
  test('runs with all, get, values and run', async () => {
    expect(await db.all(sql`select 1 as a, 'x' as b union all select 2, 'y'`)).toEqual([
      { a: 1, b: 'x' },
      { a: 2, b: 'y' },
    ])
    expect(await db.get(sql`select 1 as a`)).toEqual({ a: 1 })
    expect(await db.get(sql`select 1 as a where 0`)).toBeUndefined()
    expect(await db.values(sql`select 1 as a, 2 as a`)).toEqual([[1, 2]])
    expect(await db.run('select 1 as a')).toMatchObject({ columns: ['a'], rows: [{ a: 1 }], rowsAffected: 0 })
  })

  test('a Date becomes milliseconds, and a boolean becomes 1 or 0', async () => {
    expect(await db.values(sql`select ${new Date(5)}, ${true}, ${false}, ${null}`)).toEqual([[5, 1, 0, null]])
  })
})

describe('errors', () => {
  test('name the violated constraint', async () => {
    await db.run(
      sql`create table strict_one (a integer not null unique check (a < 10), b integer references users (id))`,
    )
    await db.run(sql`insert into strict_one values (1, null)`)
    const violationChecks = [isUniqueViolation, isNotNullViolation, isCheckViolation, isForeignKeyViolation]
    for (const [expectedIndex, statement] of [
      sql`insert into strict_one values (1, null)`,
      sql`insert into strict_one values (null, null)`,
      sql`insert into strict_one values (11, null)`,
      sql`insert into strict_one values (2, 99)`,
    ].entries()) {
      for (const attempt of [
        () => db.run(statement),
        () => db.batch([db.run(statement)]),
        () => db.transaction((tx) => tx.run(statement)),
      ]) {
        const error: unknown = await attempt().catch((reason: unknown) => reason)
        expect(violationChecks.map((check) => check(error))).toEqual(
          violationChecks.map((_, index) => index === expectedIndex),
        )
        if (expectedIndex < 2)
          expect(findViolation(error)).toMatchObject({ table: 'strict_one', columns: ['a'] })
        if (isUniqueViolation(error)) expect(error.constraint.columns).toEqual(['a'])
        else if (isNotNullViolation(error)) expect(error.constraint.columns).toEqual(['a'])
        else if (isCheckViolation(error)) expect(error.constraint.kind).toBe('check')
        else if (isForeignKeyViolation(error)) expect(error.constraint.kind).toBe('foreign_key')
        else expect.unreachable()
      }
    }
    expect(isUniqueViolation(new Error('UNIQUE constraint failed'))).toBe(false)
    expect(findDatabaseError(new TypeError('x'))).toBeNull()
    expect(findViolation(await db.run(sql`select * from missing`).catch(String))).toBeNull()
  })

  test('BEGIN as a query is rejected before anything is sent', async () => {
    const cause = { message: expect.stringContaining('transaction()') as string }
    const begin = () => expect(db.run(sql`begin`)).rejects.toMatchObject({ cause })
    expect(await countRequestsOf(begin)).toBe(0)
  })
})

describe('values', () => {
  test('columns of every kind round-trip', async () => {
    const row = {
      id: 1,
      big: 2n ** 63n - 1n,
      int: Number.MAX_SAFE_INTEGER,
      real: -0.5,
      numeric: '12.5',
      json: { a: 1 },
      seconds: new Date(5000),
      bytes: Buffer.from([0, 1, 255]),
      blobJson: [1, 2],
      blobBigint: 2n ** 80n,
    }
    await db.insert(kinds).values(row)
    expect(await db.select().from(kinds)).toEqual([row])
    const isBig = and(eq(kinds.big, row.big), gt(kinds.big, 5n))
    expect(await db.select().from(kinds).where(isBig)).toHaveLength(1)
    const changes = { big: 5n, bytes: Buffer.alloc(0), json: null }
    await db.update(kinds).set(changes)
    expect(await db.select().from(kinds)).toEqual([{ ...row, ...changes }])
    await db.delete(kinds)
  })

  test('vectors are stored as blobs and compared by the server', async () => {
    const places = sqliteTable('places', { id: integer().primaryKey(), at: vector({ dimensions: 3 }) })
    await db.run(sql`create table places (id integer primary key, at ${sql.raw(places.at.getSQLType())})`)
    await db.insert(places).values([
      { id: 1, at: [1, 0, 0] },
      { id: 2, at: new Float32Array([0, 1, 0.5]) },
      { id: 3, at: null },
    ])
    const nearest = await db
      .select({
        id: places.id,
        at: places.at,
        cos: cosineDistance(places.at, [0, 1, 0]),
        l2: euclideanDistance(places.at, [0, 1, 0]),
      })
      .from(places)
      .where(sql`${places.at} is not null`)
      .orderBy(cosineDistance(places.at, [0, 1, 0]))
    expect(nearest).toEqual([
      expect.objectContaining({ id: 2, at: new Float32Array([0, 1, 0.5]) }),
      { id: 1, at: new Float32Array([1, 0, 0]), cos: 1, l2: expect.closeTo(Math.SQRT2, 5) as number },
    ])
  })
})

describe('drizzle()', () => {
  test('accepts a URL, a client or a configuration with either', async () => {
    await using client = createClient(database.config)
    const { url } = database
    const withClient = [
      drizzle(client),
      drizzle(client, {}),
      drizzle({ client }),
      drizzle({ client, logger: false }),
    ]
    for (const orm of withClient) {
      expect(orm.$client).toBe(client)
      expect(await orm.get(sql`select 1 as one`)).toEqual({ one: 1 })
    }
    if (database.authToken === undefined) {
      for (const orm of [
        drizzle(url),
        drizzle(new URL(url)),
        drizzle(url, {}),
        drizzle({ connection: url }),
        drizzle({ connection: { url, intMode: 'bigint' } }),
      ]) {
        expect(await orm.values(sql`select 1`)).toEqual([[expect.toSatisfy((value) => Number(value) === 1)]])
        await orm.$client.close()
      }
    }
    // @ts-expect-error neither client nor connection
    expect(() => drizzle({ logger: true })).toThrow('either `client` or `connection`')
    // @ts-expect-error both
    expect(() => drizzle({ client, connection: url })).toThrow('either `client` or `connection`')
    expect(() => drizzle('file:local.db')).toThrow('npx @batonsql/cli dev')
  })

  test.each([
    [undefined, /url is undefined: is its environment variable set/],
    [{ connection: undefined }, /url is undefined: is its environment variable set/],
    [{ connection: { url: undefined } }, /url is undefined: is its environment variable set/],
    [null, /expected a URL, a client, .* not null/],
    [5, /expected a URL, a client, .* not number/],
    // such as a client of @libsql/client
    [{ client: { execute: () => {}, batch: () => {} } }, /expected a client from createClient\(\) .* Object/],
    [{ client: 'libsql://h' }, /expected a client from createClient\(\) .* string/],
    [{ url: 'libsql://h?authToken=secret' }, /either `client` or `connection`, not an object of url/],
    ['localhost:8080', /did you mean http:\/\/localhost:8080\?/],
  ])('rejects %o', (config, message) => {
    expect(() => drizzle(config as never)).toThrow(message)
    expect(() => drizzle(config as never)).not.toThrow('secret')
  })

  test('with intMode bigint, number columns still return numbers', async () => {
    await using client = createClient({ ...database.config, intMode: 'bigint' })
    const bigintDb = drizzle({ client })
    await bigintDb.insert(users).values({ id: 1, name: 'Ada', bornAt: new Date(5) })
    expect(await bigintDb.select().from(users)).toEqual([ada])
    expect(await bigintDb.$count(users)).toBe(1)
    expect(await bigintDb.get(sql`select 1 as raw`)).toEqual({ raw: 1n })
  })

  test('rejects intMode string, because columns would read wrong values', async () => {
    const message = /intMode: 'string' cannot be used with Drizzle/
    await using client = createClient({ ...database.config, intMode: 'string' })
    expect(() => drizzle(client)).toThrow(message)
    expect(() => drizzle({ client })).toThrow(message)
    expect(() => drizzle({ connection: { ...database.config, intMode: 'string' } })).toThrow(message)
  })

  test('mock builds queries but does not run them', async () => {
    const mock = drizzle.mock()
    expect(mock.select({ id: users.id }).from(users).toSQL().sql).toBe('select "id" from "users"')
    expect(mock.$client).toBe('$client is not available on drizzle.mock()')
    const cause = { message: expect.stringContaining('mock') as string }
    await expect(mock.select().from(users)).rejects.toMatchObject({ cause })
  })

  test('withReplicas preserves batch', async () => {
    const replicated = withReplicas(db, [drizzle({ client: db.$client })])
    const [rows] = await replicated.batch([db.select().from(users)])
    expect(rows).toEqual([])
  })

  test('types', () => {
    const all = () => db.select().from(users).all()
    expectTypeOf(all).returns.resolves.items.toHaveProperty('name')
    expectTypeOf(drizzle(db.$client).$client).toEqualTypeOf(db.$client)
    const { columns } = getTableConfig(kinds)
    expect(columns.find((column) => column.name === 'big')?.getSQLType()).toBe('integer')
  })
})
