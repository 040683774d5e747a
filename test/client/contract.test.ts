import { type Client, createClient, type InValue, type Transaction } from '@batonsql/core'
import { type Executor, testAdapter } from '../adapters/adapter-contract.ts'

const insertInto = (name: string) => ({ sql: 'insert into item (name) values (?)', args: [name] })

const wrap = (on: Pick<Client, 'execute' | 'batch'>): Executor => ({
  insert: (name) => on.execute(insertInto(name)),
  names: async () =>
    (await on.execute('select name from item order by id', [], { rowMode: 'array' })).rows.flat(),
  run: (statement) => on.execute(statement),
  select: async (values) => {
    const sql = `select ${values.map(() => '?').join()}`
    return (await on.execute(sql, values as InValue[], { rowMode: 'array' })).rows[0] ?? []
  },
  row: async (statement) => (await on.execute(statement)).rows[0] ?? {},
  insertBatch: (names) => on.batch(names.map(insertInto)),
})
const wrapTransaction = (tx: Transaction): Executor => ({
  ...wrap(tx),
  nest: (callback) => tx.savepoint((inner) => callback(wrapTransaction(inner))),
})

testAdapter({
  connect(config) {
    const db = createClient(config)
    return {
      ...wrap(db),
      transaction: (callback) => db.transaction((tx) => callback(wrapTransaction(tx))),
      close: () => db.close(),
    }
  },
  canNest: true,
})
