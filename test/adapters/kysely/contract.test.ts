import { BatonDialect, batch } from '@batonsql/kysely-dialect'
import { type Generated, Kysely, sql } from 'kysely'
import { type Executor, testAdapter } from '../adapter-contract.ts'

interface Tables {
  item: { id: Generated<number>; name: string }
}

const wrap = (on: Kysely<Tables>): Executor => ({
  insert: (name) => on.insertInto('item').values({ name }).execute(),
  names: async () =>
    (await on.selectFrom('item').select('name').orderBy('id').execute()).map(({ name }) => name),
  run: (statement) => sql.raw(statement).execute(on),
  select: async (values) => {
    const columns = values.map((value, index) => sql`${value} as ${sql.ref(`c${index}`)}`)
    return Object.values((await sql`select ${sql.join(columns)}`.execute(on)).rows[0] as object)
  },
  row: async (statement) => (await sql.raw<object>(statement).execute(on)).rows[0] ?? {},
  insertBatch: (names) =>
    batch(
      on,
      names.map((name) => on.insertInto('item').values({ name })),
    ),
})

testAdapter({
  connect(config) {
    const db = new Kysely<Tables>({ dialect: new BatonDialect(config) })
    return {
      ...wrap(db),
      transaction: (callback) => db.transaction().execute((trx) => callback(wrap(trx))),
      close: () => db.destroy(),
    }
  },
})
