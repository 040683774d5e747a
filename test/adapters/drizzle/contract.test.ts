import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import { sql } from 'drizzle-orm'
import { DrizzleQueryError } from 'drizzle-orm/errors'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { type Executor, testAdapter } from '../adapter-contract.ts'

// These tests run on all versions of Drizzle.

const items = sqliteTable('item', { id: integer().primaryKey(), name: text().notNull().unique() })
type Runner = Pick<BatonDatabase, 'insert' | 'select' | 'run' | 'values' | 'get' | 'batch' | 'transaction'>

const wrap = (on: Runner): Executor => ({
  insert: (name) => on.insert(items).values({ name }).execute(),
  names: async () => (await on.select().from(items).orderBy(items.id)).map(({ name }) => name),
  run: (statement) => on.run(sql.raw(statement)).execute(),
  select: async (values) => {
    const parameters = values.map((value) => sql.param(value))
    return (await on.values(sql`select ${sql.join(parameters, sql`, `)}`))[0] ?? []
  },
  row: async (statement) => (await on.get<object>(sql.raw(statement))) ?? {},
  insertBatch: (names) => on.batch(names.map((name) => on.insert(items).values({ name }))),
  nest: (callback) => on.transaction((inner) => callback(wrap(inner))),
})

testAdapter({
  connect(config) {
    const db = drizzle({ connection: config })
    return {
      ...wrap(db),
      transaction: (callback) => db.transaction((tx) => callback(wrap(tx))),
      close: () => db.$client.close(),
    }
  },
  unwrap: (error) => (error instanceof DrizzleQueryError ? error.cause : error),
  canNest: true,
})
