import { type BatchResults, batch } from '@batonsql/kysely-dialect'
import {
  type DeleteResult,
  type Generated,
  type InsertResult,
  type Kysely,
  type QueryResult,
  sql,
  type Transaction,
  type UpdateResult,
} from 'kysely'
import { expectTypeOf, test } from 'vitest'

// Compiled by `npm run check`, but never executed.

interface Database {
  person: { id: Generated<number>; name: string; bornAt: number | null }
  pet: { id: Generated<number>; name: string; ownerId: number }
}

declare const db: Kysely<Database>
declare const trx: Transaction<Database>

test('a tuple keeps the type of each of its queries', () => {
  const results = () =>
    batch(db, [
      db.selectFrom('person').select(['id', 'name']),
      db.insertInto('person').values({ name: 'Ada' }),
      db.insertInto('pet').values({ name: 'Rex', ownerId: 1 }).returning('id'),
      db.updateTable('person').set({ name: 'Bob' }),
      db.deleteFrom('pet'),
      sql<{ n: number }>`select 1 as n`,
      sql<{ m: string }>`select 'a' as m`.compile(db),
      db.schema.createTable('extra').addColumn('id', 'integer'),
    ])
  expectTypeOf(results).returns.resolves.toEqualTypeOf<
    [
      { id: number; name: string }[],
      InsertResult[],
      { id: number }[],
      UpdateResult[],
      DeleteResult[],
      QueryResult<{ n: number }>,
      QueryResult<{ m: string }>,
      void,
    ]
  >()
})

test('joins and nullable columns have the types that Kysely infers', () => {
  const query = db
    .selectFrom('person')
    .leftJoin('pet', 'pet.ownerId', 'person.id')
    .select(['person.name', 'pet.name as pet', 'bornAt'])
  const results = () => batch(db, [query])
  expectTypeOf(results).returns.resolves.toEqualTypeOf<
    [{ name: string; pet: string | null; bornAt: number | null }[]]
  >()
})

test('an array of unknown length returns an array', () => {
  const results = (ids: number[]) =>
    batch(
      db,
      ids.map((id) => db.selectFrom('person').select('name').where('id', '=', id)),
    )
  expectTypeOf(results).returns.resolves.toEqualTypeOf<{ name: string }[][]>()
  expectTypeOf(() => batch(db, [])).returns.resolves.toEqualTypeOf<[]>()
})

test('a transaction and a readonly tuple can be passed', () => {
  const queries = [trx.selectFrom('pet').select('id')] as const
  expectTypeOf(() => batch(trx, queries)).returns.resolves.toEqualTypeOf<[{ id: number }[]]>()
  expectTypeOf<BatchResults<typeof queries>>().toEqualTypeOf<[{ id: number }[]]>()
})

test('invalid code does not compile', () => {
  const neverCalled = async () => {
    // @ts-expect-error text is not a query
    await batch(db, ['select 1'])
    // @ts-expect-error a promise is not a query: it is already running
    await batch(db, [db.selectFrom('person').selectAll().execute()])
    // @ts-expect-error a single query is not a list
    await batch(db, db.selectFrom('person').selectAll())
    // @ts-expect-error a configuration is not a Kysely instance
    await batch({ url: 'http://127.0.0.1' }, [])
    // @ts-expect-error no such mode
    await batch(db, [], { mode: 'exclusive' })
    const [people] = await batch(db, [db.selectFrom('person').select('id')])
    // @ts-expect-error the column was not selected
    expectTypeOf(people[0]?.name)
    const one = await batch(db, [db.selectFrom('person').select('id')])
    // @ts-expect-error there is no second result
    expectTypeOf(one[1])
  }
  expectTypeOf(neverCalled).returns.resolves.toBeVoid()
})
