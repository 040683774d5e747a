import { createClient } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { type BetterAuthOptions, betterAuth } from 'better-auth'
import { drizzleAdapter } from 'better-auth/adapters/drizzle'
import { getMigrations } from 'better-auth/db/migration'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { Kysely } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// better-auth: sign up, sign in, session, link an account, and the state after one of several writes fails.

const timestamps = {
  createdAt: integer({ mode: 'timestamp_ms' }).notNull(),
  updatedAt: integer({ mode: 'timestamp_ms' }).notNull(),
}
const user = sqliteTable('user', {
  id: text().primaryKey(),
  name: text().notNull(),
  email: text().notNull().unique(),
  emailVerified: integer({ mode: 'boolean' }).notNull(),
  image: text(),
  ...timestamps,
})
const session = sqliteTable('session', {
  id: text().primaryKey(),
  token: text().notNull().unique(),
  expiresAt: integer({ mode: 'timestamp_ms' }).notNull(),
  ipAddress: text(),
  userAgent: text(),
  userId: text().notNull(),
  ...timestamps,
})
const account = sqliteTable('account', {
  id: text().primaryKey(),
  accountId: text().notNull(),
  providerId: text().notNull(),
  userId: text().notNull(),
  accessToken: text(),
  refreshToken: text(),
  idToken: text(),
  accessTokenExpiresAt: integer({ mode: 'timestamp_ms' }),
  refreshTokenExpiresAt: integer({ mode: 'timestamp_ms' }),
  scope: text(),
  password: text(),
  ...timestamps,
})
const verification = sqliteTable('verification', {
  id: text().primaryKey(),
  identifier: text().notNull(),
  value: text().notNull(),
  expiresAt: integer({ mode: 'timestamp_ms' }).notNull(),
  ...timestamps,
})
const schema = { user, session, account, verification }

/** Opens a database for better-auth through each of our packages. */
const ADAPTERS: Record<
  string,
  (config: TestDatabase['config'], transaction: boolean) => BetterAuthOptions['database']
> = {
  kysely: (config, transaction) => ({
    db: new Kysely({ dialect: new BatonDialect(config) }),
    type: 'sqlite',
    transaction,
  }),
  drizzle: (config, transaction) =>
    drizzleAdapter(drizzle({ connection: config, schema }), { provider: 'sqlite', schema, transaction }),
}
const SIGN_UP = { name: 'Ada', email: 'ada@example.com', password: 'a very long secret' }

describe.each(Object.keys(ADAPTERS))('better-auth with %s', (name) => {
  let database: TestDatabase
  const createAuth = (transaction: boolean, options: BetterAuthOptions = {}) =>
    betterAuth({
      baseURL: 'http://localhost:3000',
      secret: 'a secret for tests that is long enough',
      database: ADAPTERS[name]?.(database.config, transaction),
      emailAndPassword: { enabled: true },
      telemetry: { enabled: false },
      logger: { disabled: true },
      ...options,
    })
  const selectUsers = async (): Promise<unknown[]> => {
    await using db = createClient(database.config)
    return (await db.execute('select name, email from user order by email')).rows
  }

  beforeAll(async () => {
    database = await (await openTestServer()).createDatabase()
    // better-auth's own migrations support only Kysely; with Drizzle, drizzle-kit creates the tables, with the same names and
    // columns
    const dialect = new BatonDialect(database.config)
    const { runMigrations } = await getMigrations({
      database: { db: new Kysely({ dialect }), type: 'sqlite', transaction: true },
      emailAndPassword: { enabled: true },
    })
    await runMigrations()
  })

  test('supports sign-up, sign-in, sessions, linked accounts and sign-out', async () => {
    const auth = createAuth(true)
    const signedUp = await auth.api.signUpEmail({ body: SIGN_UP })
    expect(signedUp.user).toMatchObject({ name: 'Ada', email: 'ada@example.com', emailVerified: false })
    await expect(auth.api.signUpEmail({ body: SIGN_UP })).rejects.toThrow(/exists/)
    await expect(
      auth.api.signInEmail({ body: { email: SIGN_UP.email, password: 'not the secret' } }),
    ).rejects.toThrow(/Invalid/)

    const { headers: responseHeaders } = await auth.api.signInEmail({ body: SIGN_UP, returnHeaders: true })
    const headers = new Headers({
      cookie: responseHeaders
        .getSetCookie()
        .map((cookie) => cookie.split(';')[0])
        .join('; '),
    })
    const currentSession = await auth.api.getSession({ headers })
    expect(currentSession?.user.id).toBe(signedUp.user.id)
    expect(currentSession?.session.expiresAt).toBeInstanceOf(Date)
    expect(await auth.api.listSessions({ headers })).toHaveLength(2)

    const { internalAdapter } = await auth.$context
    await internalAdapter.linkAccount({ userId: signedUp.user.id, providerId: 'github', accountId: '17' })
    const accounts = await auth.api.listUserAccounts({ headers })
    expect(accounts.map(({ providerId }) => providerId).sort()).toEqual(['credential', 'github'])
    const linked = accounts.find(({ providerId }) => providerId === 'github')
    await auth.api.unlinkAccount({ headers, body: { accountId: linked?.id ?? '' } })
    expect(await auth.api.listUserAccounts({ headers })).toHaveLength(1)

    await auth.api.updateUser({ headers, body: { name: 'Ada Lovelace' } })
    expect(await selectUsers()).toEqual([{ name: 'Ada Lovelace', email: 'ada@example.com' }])
    await auth.api.signOut({ headers })
    expect(await auth.api.getSession({ headers })).toBeNull()
  })

  const FAILING_HOOKS = {
    databaseHooks: {
      account: { create: { before: () => Promise.reject(new Error('the second write fails')) } },
    },
  }

  test('with `transaction: true`, a sign-up that fails halfway leaves nothing behind', async () => {
    const before = await selectUsers()
    const body = { ...SIGN_UP, email: 'half@example.com' }
    await expect(createAuth(true, FAILING_HOOKS).api.signUpEmail({ body })).rejects.toThrow()
    expect(await selectUsers()).toEqual(before)
  })

  test('without `transaction: true`, a user without a password is left behind', async () => {
    const body = { ...SIGN_UP, email: 'half@example.com' }
    await expect(createAuth(false, FAILING_HOOKS).api.signUpEmail({ body })).rejects.toThrow()
    expect(await selectUsers()).toContainEqual({ name: 'Ada', email: 'half@example.com' })
  })

  test('simultaneous sign-ups do not affect each other', async () => {
    const auth = createAuth(true)
    const bodies = Array.from({ length: 8 }, (_, index) => ({
      ...SIGN_UP,
      email: `user-${index}@example.com`,
    }))
    const signUps = await Promise.all(bodies.map((body) => auth.api.signUpEmail({ body })))
    expect(new Set(signUps.map(({ token }) => token)).size).toBe(8)
  })
})
