import { BatonDialect, batch } from '@batonsql/kysely-dialect'
import * as fc from 'fast-check'
import { type Generated, Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

interface Tables {
  item: { id: Generated<number>; name: string }
}

/** Names for inserts; the last is rejected. */
const NAMES = ['a', 'b', 'refused'] as const

const name = fc.constantFrom(...NAMES)
/** A single query, or a batch of several, on the database or inside a transaction. */
const operation = fc.record({
  names: fc.oneof(name, fc.array(name, { maxLength: 4 })),
  inTransaction: fc.boolean(),
})

test('with concurrent queries and shared builders, a batch is atomic and each query runs once', async () => {
  const server = await openTestServer()
  const { url, authToken } = await server.createDatabase()
  const db = new Kysely<Tables>({ dialect: new BatonDialect({ url, authToken }) })
  await sql`create table item (id integer primary key, name text check (name <> 'refused'))`.execute(db)
  const builders = Object.fromEntries(
    NAMES.map((name) => [name, db.insertInto('item').values({ name }).returning('name')]),
  )
  const run = (names: string | readonly string[], executor: Kysely<Tables>): Promise<readonly unknown[]> => {
    if (typeof names !== 'string')
      return batch(
        executor,
        names.map((name) => builders[name]!),
      )
    return executor === db
      ? builders[names]!.execute()
      : executor.executeQuery(builders[names]!).then(({ rows }) => rows)
  }
  const property = fc.asyncProperty(
    fc.array(operation, { minLength: 1, maxLength: 5 }),
    async (operations) => {
      await db.deleteFrom('item').execute()
      const outcomes = await Promise.allSettled(
        operations.map(({ names, inTransaction }) =>
          inTransaction ? db.transaction().execute((trx) => run(names, trx)) : run(names, db),
        ),
      )
      const expected = operations.flatMap(({ names }, index) =>
        outcomes[index]?.status === 'fulfilled' ? names : [],
      )
      for (const [index, { names }] of operations.entries()) {
        const { status, value } = outcomes[index] as PromiseFulfilledResult<unknown[]>
        const requested = [names].flat()
        expect(status).toBe(requested.includes('refused') ? 'rejected' : 'fulfilled')
        if (status === 'fulfilled') expect(value.flat()).toEqual(requested.map((item) => ({ name: item })))
      }
      const rows = await db.selectFrom('item').select('name').execute()
      expect(rows.map((row) => row.name).toSorted()).toEqual(expected.toSorted())
    },
  )
  await fc.assert(property, { numRuns: 40 })
  await db.destroy()
})
