// A program for an edge platform. The size of its bundle is limited: see scripts/size.mjs.
import { createClient } from '@batonsql/core'

const db = createClient({ url: 'https://example.com' })

export async function run(): Promise<unknown> {
  await db.batch(['create table if not exists t (a)', { sql: 'insert into t values (?)', args: [1] }])
  await db.transaction(async (tx) => {
    await tx.execute('update t set a = a + 1')
  })
  return await db.execute('select a from t')
}
