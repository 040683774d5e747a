import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient } from '@batonsql/core'
import { describe, expect, inject, test } from 'vitest'
import { FaultProxy } from '../faults/fault-proxy.ts'
import { ofDrizzle, ofKysely } from '../faults/orm-transactions.ts'
import { seeded } from '../faults/random.ts'
import { SIZE_LIMIT_BYTES, type Tearable, tearTransactions } from '../faults/torn-transactions.ts'
import { openRestartableServer, type RestartableServer } from '../targets/restartable-server.ts'

// Every cause for which a server ends a transaction by itself. The short forms; the long ones: npm run test:faults.
const seed = Number(process.env['FAULT_SEED'] ?? Date.now() % 2 ** 31)
const transactions = Number(process.env['FAULT_TRANSACTIONS'] ?? 60)
const interludes = Number(process.env['FAULT_INTERLUDES'] ?? 1)
const timeout = Number(process.env['FAULT_TIMEOUT_MS'] ?? 60_000)
const isOurs = ['embedded', 'sqld'].includes(inject('target'))

const THROUGH: readonly (readonly [string, (client: Client) => Tearable])[] = [
  ['core', (client) => client],
  ['Kysely', ofKysely],
  ['Drizzle', ofDrizzle],
]

const CAUSES: Readonly<Record<string, (server: RestartableServer, direct: Client) => Promise<unknown>>> = {
  'another writer took the write lock': async (_, direct) => {
    await pause(5_200)
    await direct.execute('insert into torn values (-2, null)')
  },
  'the stream was idle for too long': () => pause(13_000),
  'the server was started anew': (server) => server.restart(),
}

describe.runIf(isOurs).each([
  ['/v3', false],
  ['/v2', true],
])('on %s', (_, hidesV3) => {
  test.concurrent.each(THROUGH)(
    `no transaction is torn, also by a full disk: through %s (seed ${seed})`,
    {
      timeout,
    },
    async (through, of) => {
      await using server = await start(hidesV3)
      const account = await tearTransactions(of(server.db), server.direct, transactions, seeded(seed), {
        isLimited: true,
      })
      console.log(
        `torn transactions through ${through}: ${JSON.stringify({ ...account, leaks: account.leaks.length, seed })}`,
      )
      expect(account.leaks).toEqual([])
      expect(account.endedByServer).toBeGreaterThan(transactions / 4)
      expect(account.committed).toBeGreaterThan(0)
    },
  )

  const cases = Object.keys(CAUSES).flatMap((cause) =>
    THROUGH.map(([through, of]) => [cause, through, of] as const),
  )
  test.concurrent.each(cases)(
    `nor when %s: through %s (seed ${seed})`,
    { timeout },
    async (cause, _through, of) => {
      await using server = await start(hidesV3)
      const account = await tearTransactions(of(server.db), server.direct, interludes, seeded(seed), {
        interlude: () => CAUSES[cause]?.(server.server, server.direct) as Promise<unknown>,
      })
      expect(account.leaks).toEqual([])
      expect(account.committed).toBe(0)
    },
  )
})

/** A server of its own, and a client that leaves it to the server to end a transaction. */
async function start(hidesV3: boolean) {
  const server = (await openRestartableServer(inject('target'), SIZE_LIMIT_BYTES)) as RestartableServer
  const proxy = await FaultProxy.start(server.config.url)
  proxy.hidesV3 = hidesV3
  const db = createClient({ ...server.config, url: proxy.url, transactionTimeoutMs: Infinity })
  const direct = createClient(server.config)
  return {
    server,
    db,
    direct,
    async [Symbol.asyncDispose]() {
      await Promise.all([db.close(), direct.close()])
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}
