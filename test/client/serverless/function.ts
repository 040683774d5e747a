// A function with a client in module scope. It runs each line of its input as a statement, and prints the outcome, and `retry`
// for each retry.
import { createInterface } from 'node:readline'
import { createClient, type DatabaseError } from '@batonsql/core'

let retries = 0
const db = createClient({
  url: process.env['DATABASE_URL'] ?? '',
  authToken: process.env['DATABASE_TOKEN'],
  requestTimeoutMs: 10_000,
  // more than usual, in case the machine is busy
  maxRetries: 5,
  observe: ({ type }) => {
    if (type !== 'retry') return
    retries += 1
    console.log('retry')
  },
})

for await (const sql of createInterface({ input: process.stdin })) {
  retries = 0
  const output = await db.execute(sql, [], { rowMode: 'array' }).then(
    ({ rows }) => ({ rows }),
    ({ code, outcome }: DatabaseError) => ({ code, outcome }),
  )
  console.log(JSON.stringify({ ...output, retries }))
}
