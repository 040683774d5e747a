// Counts torn transactions. Runs the same random transactions, which the server may roll back on its own, with each client, with
// statements awaited one by one and sent together, and with errors caught and thrown.
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createClient, serverVersion } from '@batonsql/core'
import { createClient as createDropIn } from '@batonsql/libsql-client/http'
import { startSqld } from '@batonsql/local-server/sqld'
import { createClient as createLibsqlClient } from '@libsql/client/http'
import { connect } from '@tursodatabase/serverless'
import {
  findTornTransactions,
  type TransactionClient,
} from '../../test/generated/faults/torn-transactions.ts'
import { seeded } from '../../test/support/random.ts'
import { recordResults } from '../lib/results.ts'

const TIME_LIMIT_MS = 120_000

const wrapLibsqlClient =
  (create: typeof createLibsqlClient) =>
  (url: string): TransactionClient => {
    const db = create({ url })
    return {
      async transaction(callback) {
        const tx = await db.transaction('write')
        try {
          await callback({ execute: (sql, args) => tx.execute({ sql, args }) })
          await tx.commit()
        } catch (error) {
          await tx.rollback().catch(() => {})
          throw error
        } finally {
          tx.close()
        }
      },
    }
  }

function wrapServerless(url: string): TransactionClient {
  return {
    async transaction(callback) {
      const db = connect({ url })
      const run = db.transactionAsync(
        async (tx: { run(sql: string, ...args: number[]): Promise<unknown> }) => {
          // one at a time, because simultaneous statements of a transaction would compete for its baton
          let queueEnd: Promise<unknown> = Promise.resolve()
          await callback({
            execute: (sql, args) => {
              const runResult = queueEnd.then(() => tx.run(sql, ...args))
              queueEnd = runResult.catch(() => {})
              return runResult
            },
          })
        },
      )
      await run.immediate()
    },
  }
}

const CLIENTS: Record<string, (url: string) => TransactionClient> = {
  '@batonsql/core': (url) => createClient({ url }),
  '@libsql/client': wrapLibsqlClient(createLibsqlClient),
  '@batonsql/libsql-client': wrapLibsqlClient(createDropIn),
  '@tursodatabase/serverless': wrapServerless,
}

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '2000' },
    seed: { type: 'string', default: '1' },
    write: { type: 'boolean', default: false },
  },
})
const [count, seed] = [Number(values.count), Number(values.seed)]
const torn: Record<string, number> = {}
let [ended, server] = [0, '']
for (const [name, open] of Object.entries(CLIENTS)) {
  const sqld = await startSqld({ namespaces: false })
  await using direct = createClient({ url: sqld.url })
  server = await serverVersion(direct)
  const result = await Promise.race([
    findTornTransactions(open(sqld.url), direct, count, seeded(seed)),
    pause(TIME_LIMIT_MS, null, { ref: false }),
  ])
  await sqld.close()
  if (result === null) throw new Error(`${name} did not finish ${count} transactions within 120 s`)
  const { endedByServer, leaks } = result
  console.log(`${name}: ${leaks.length} of ${count} transactions torn; the server ended ${endedByServer}`)
  for (const leak of leaks.slice(0, 2)) console.log(`  ${leak}`)
  torn[name] = leaks.length
  ended = endedByServer
}
if (values.write) recordResults({ torn: { transactions: count, seed, endedByServer: ended, server, torn } })
process.exit()
