import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { kyselyAdapter } from '@better-auth/kysely-adapter'
import {
  authFlowTestSuite,
  caseInsensitiveTestSuite,
  joinsTestSuite,
  normalTestSuite,
  numberIdTestSuite,
  testAdapter,
  transactionsTestSuite,
  uuidTestSuite,
} from '@better-auth/test-utils/adapter'
import type { BetterAuthOptions } from 'better-auth'
import { drizzleAdapter } from 'better-auth/adapters/drizzle'

import { getMigrations } from 'better-auth/db/migration'
import { Kysely } from 'kysely'
import { afterAll, describe } from 'vitest'
import { dropEverything } from '../../../support/drop-everything.ts'
import { openTestServer } from '../../../support/test-server.ts'
import { drizzleTablesOf } from './drizzle-tables.ts'

// The suite that better-auth publishes for adapter authors, run with its Kysely and Drizzle adapters on our packages.

const server = await openTestServer()

for (const name of ['kysely', 'drizzle']) {
  const { config } = await server.createDatabase()
  const db = new Kysely<unknown>({ dialect: new BatonDialect(config) })
  const client = drizzle({ connection: config }).$client
  afterAll(async () => {
    await db.destroy()
    await client.close()
  })
  const suite = await testAdapter({
    adapter: (options) => {
      if (name === 'kysely') return kyselyAdapter(db, { type: 'sqlite', transaction: true })
      const schema = drizzleTablesOf(options)
      return drizzleAdapter(drizzle({ client, schema }), { provider: 'sqlite', schema, transaction: true })
    },
    runMigrations: async (options: BetterAuthOptions) => {
      await dropEverything(config.url, config.authToken)
      // better-auth supports migrations only with Kysely; for Drizzle, the tables have the same names and columns
      const { runMigrations } = await getMigrations({
        ...options,
        database: { db, type: 'sqlite', transaction: true },
      })
      await runMigrations()
    },
    tests: [
      normalTestSuite(),
      transactionsTestSuite(),
      authFlowTestSuite(),
      numberIdTestSuite(),
      joinsTestSuite(),
      uuidTestSuite(),
      caseInsensitiveTestSuite(),
    ],
  })
  describe(`better-auth's suite with ${name}`, () => suite.execute())
}
