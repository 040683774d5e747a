import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import { eq, max, sql } from 'drizzle-orm'
import { alias, blob, integer, sqliteTable } from 'drizzle-orm/sqlite-core'
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

// These run on all versions of Drizzle.

const files = sqliteTable('files', { id: integer().primaryKey(), bytes: blob({ mode: 'buffer' }).notNull() })

let db: BatonDatabase

beforeAll(async () => {
  const server = await openTestServer()
  const database = await server.createDatabase()
  db = drizzle({ connection: database.config })
  await db.run(sql`create table files (id integer primary key, bytes blob not null)`)
})
afterAll(() => db.$client.close())

/** Ways to read the only row of `files`; each returns its blob. */
const READERS: readonly [string, () => Promise<unknown>][] = [
  ['a select', async () => (await db.select().from(files))[0]?.bytes],
  ['get', async () => (await db.select({ b: files.bytes }).from(files).get())?.b],
  ['an aggregate', async () => (await db.select({ b: max(files.bytes) }).from(files))[0]?.b],
  [
    'SQL with the decoder of the column',
    async () =>
      (await db.select({ b: sql`coalesce(${files.bytes}, '')`.mapWith(files.bytes).as('b') }).from(files))[0]
        ?.b,
  ],
  [
    'a subquery',
    async () => {
      const inner = db.select({ id: files.id, b: files.bytes }).from(files).as('inner')
      return (await db.select({ b: inner.b }).from(inner).where(eq(inner.id, 1)))[0]?.b
    },
  ],
  [
    'a union',
    async () => {
      const query = db.select({ b: files.bytes }).from(files)
      return (await query.union(db.select({ b: files.bytes }).from(files)))[0]?.b
    },
  ],
  [
    'a join',
    async () => {
      const other = alias(files, 'other')
      return (await db.select().from(files).leftJoin(other, eq(other.id, files.id)))[0]?.other?.bytes
    },
  ],
  ['RETURNING', async () => (await db.update(files).set({ id: 1 }).returning())[0]?.bytes],
  ['a prepared query', async () => (await db.select().from(files).prepare().all())[0]?.bytes],
  ['a batch', async () => (await db.batch([db.select().from(files)]))[0][0]?.bytes],
  ['a transaction', async () => (await db.transaction((tx) => tx.select().from(files)))[0]?.bytes],
  ['raw SQL', async () => (await db.get<{ bytes: unknown }>(sql`select bytes from files`)).bytes],
  ['raw values', async () => (await db.values(sql`select bytes from files`))[0]?.[0]],
]

test.each(READERS)('a blob has memory of its own, read by %s', async (_, read) => {
  const property = fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
    await db
      .insert(files)
      .values({ id: 1, bytes: Buffer.from(bytes) })
      .onConflictDoUpdate({ target: files.id, set: { bytes: Buffer.from(bytes) } })
    const { buffer, byteOffset } = (await read()) as Uint8Array
    expect(byteOffset).toBe(0)
    expect(new Uint8Array(buffer)).toEqual(bytes)
  })
  await fc.assert(property, { numRuns: 10 })
})

test('columns return a Buffer, raw SQL a Uint8Array', async () => {
  await db.delete(files)
  await db.insert(files).values({ id: 1, bytes: Buffer.from('abc') })
  for (const [name, read] of READERS)
    expect([name, Buffer.isBuffer(await read())]).toEqual([name, !name.startsWith('raw')])
})

test('text in a blob column is read as its bytes; a number is rejected', async () => {
  await db.run(sql`insert or replace into files values (1, 'é')`)
  const [row] = await db.select().from(files)
  expect(new Uint8Array(row?.bytes.buffer as ArrayBuffer)).toEqual(new TextEncoder().encode('é'))
  await db.run(sql`update files set bytes = 3`)
  await expect((async () => await db.select().from(files))()).rejects.toThrow('expected a blob')
})
