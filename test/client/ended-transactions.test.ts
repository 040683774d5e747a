import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient } from '@batonsql/core'
import { describe, expect, inject, test } from 'vitest'
import { drizzleTransactions, kyselyTransactions } from '../generated/faults/orm-transactions.ts'
import {
  findTornTransactions,
  SIZE_LIMIT_BYTES,
  type TransactionClient,
} from '../generated/faults/torn-transactions.ts'
import { FaultProxy } from '../support/fault-proxy.ts'
import { SEED, seeded } from '../support/random.ts'
import { openRestartableServer, type RestartableServer } from '../support/restartable-server.ts'

// Every way in which a server ends a transaction on its own. These are the short versions, for core on both versions of the
// protocol and for the ORMs on the newer one. The long versions are run by npm test -- faults.
const transactionCount = Number(process.env['FAULT_TRANSACTIONS'] ?? 60)
const isLong = process.env['FAULT_LONG'] !== undefined
const disruptionCount = Number(process.env['FAULT_DISRUPTIONS'] ?? 1)
const timeout = Number(process.env['FAULT_TIMEOUT_MS'] ?? 60_000)
const isOwnServer = ['embedded', 'sqld'].includes(inject('target'))

const CLIENTS: readonly (readonly [string, (client: Client) => TransactionClient])[] = [
  ['core', (client) => client],
  ['Kysely', kyselyTransactions],
  ['Drizzle', drizzleTransactions],
]

const CAUSES: Readonly<Record<string, (server: RestartableServer, direct: Client) => Promise<unknown>>> = {
  'another writer took the write lock': async (_, direct) => {
    await pause(5_200)
    await direct.execute('insert into torn values (-2, null)')
  },
  'the stream was idle for too long': () => pause(13_000),
  'the server was restarted': (server) => server.restart(),
}

const PROTOCOLS = [
  { protocol: '/v3', hidesV3: false },
  { protocol: '/v2', hidesV3: true },
]
const variants = PROTOCOLS.flatMap(({ protocol, hidesV3 }) =>
  (isLong || !hidesV3 ? CLIENTS : CLIENTS.slice(0, 1)).map(([name, wrap]) => ({
    protocol,
    hidesV3,
    name,
    wrap,
  })),
)
const cases = Object.entries(CAUSES).flatMap(([cause, act]) =>
  variants.map((variant) => ({ ...variant, cause, act })),
)

describe.runIf(isOwnServer)('no transaction is torn', () => {
  test.concurrent.each(variants)(
    `not even on a full disk: $protocol through $name (TEST_SEED=${SEED})`,
    { timeout },
    async ({ name, wrap, hidesV3 }) => {
      await using server = await startServer(hidesV3)
      const report = await findTornTransactions(
        wrap(server.db),
        server.direct,
        transactionCount,
        seeded(SEED),
        { isLimited: true },
      )
      console.log(
        `torn transactions through ${name}: ${JSON.stringify({ ...report, leaks: report.leaks.length, seed: SEED })}`,
      )
      expect(report.leaks).toEqual([])
      expect(report.endedByServer).toBeGreaterThan(0)
      expect(report.committed).toBeGreaterThan(0)
    },
  )

  test.concurrent.each(cases)(
    `when $cause: $protocol through $name (TEST_SEED=${SEED})`,
    { timeout },
    async ({ wrap, hidesV3, act }) => {
      await using server = await startServer(hidesV3)
      const report = await findTornTransactions(
        wrap(server.db),
        server.direct,
        disruptionCount,
        seeded(SEED),
        { disrupt: () => act(server.server, server.direct) },
      )
      expect(report.leaks).toEqual([])
      expect(report.committed).toBe(0)
    },
  )
})

/** Starts a separate server, and a client that never ends a transaction on its own. */
async function startServer(hidesV3: boolean) {
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
