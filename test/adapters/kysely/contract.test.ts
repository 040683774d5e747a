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
