import { type Client, createClient, type InValue, LibsqlError } from '@batonsql/libsql-client'
import { type Executor, testAdapter } from '../adapter-contract.ts'

const insertInto = (name: string) => ({ sql: 'insert into item (name) values (?)', args: [name] })

const wrap = (on: Pick<Client, 'execute' | 'batch'>): Executor => ({
  insert: (name) => on.execute(insertInto(name)),
  names: async () => (await on.execute('select name from item order by id')).rows.map(({ name }) => name),
  run: (statement) => on.execute(statement),
  select: async (values) => {
    const sql = `select ${values.map(() => '?').join()}`
    return Array.from((await on.execute({ sql, args: values as InValue[] })).rows[0] ?? [])
  },
  row: async (statement) => (await on.execute(statement)).rows[0] ?? {},
  insertBatch: (names) => on.batch(names.map(insertInto), 'write'),
})

testAdapter({
  isDropIn: true,
  connect({ url, authToken }) {
    const db = createClient({ url: String(url), ...(typeof authToken === 'string' && { authToken }) })
    return {
      ...wrap(db),
      async transaction(callback) {
        const tx = await db.transaction('write')
        try {
          const value = await callback(wrap(tx))
          await tx.commit()
          return value
        } finally {
          tx.close()
        }
      },
      close: async () => db.close(),
    }
  },
  unwrap: (error) => (error instanceof LibsqlError ? (error.cause ?? error) : error),
})
