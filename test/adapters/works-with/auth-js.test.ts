import { Auth, type AuthConfig } from '@auth/core'
import type { Adapter } from '@auth/core/adapters'
import { DrizzleAdapter } from '@auth/drizzle-adapter'
import { type Database as AuthDatabase, KyselyAdapter } from '@auth/kysely-adapter'
import { createClient } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// Auth.js: a sign-in by email from the first request to the session, and a linked account.

const TABLES = {
  kysely: `
    create table User (id text primary key, name text, email text unique, emailVerified text, image text);
    create table Account (id text, userId text not null references User (id) on delete cascade, type text not null,
      provider text not null, providerAccountId text not null, refresh_token text, access_token text, expires_at integer,
      token_type text, scope text, id_token text, session_state text);
    create table Session (id text, userId text not null references User (id) on delete cascade, sessionToken text unique,
      expires text not null);
    create table VerificationToken (identifier text not null, token text not null unique, expires text not null)`,
  drizzle: `
    create table user (id text primary key, name text, email text unique, emailVerified integer, image text);
    create table account (userId text not null references user (id) on delete cascade, type text not null,
      provider text not null, providerAccountId text not null, refresh_token text, access_token text, expires_at integer,
      token_type text, scope text, id_token text, session_state text, primary key (provider, providerAccountId));
    create table session (sessionToken text primary key, userId text not null references user (id) on delete cascade,
      expires integer not null);
    create table verificationToken (identifier text not null, token text not null, expires integer not null,
      primary key (identifier, token));
    create table authenticator (credentialID text not null unique, userId text not null, providerAccountId text not null,
      credentialPublicKey text not null, counter integer not null, credentialDeviceType text not null,
      credentialBackedUp integer not null, transports text, primary key (userId, credentialID))`,
}
const ADAPTERS: Record<keyof typeof TABLES, (config: TestDatabase['config']) => Adapter> = {
  kysely: (config) => KyselyAdapter(new Kysely<AuthDatabase>({ dialect: new BatonDialect(config) })),
  drizzle: (config) => DrizzleAdapter(drizzle({ connection: config })),
}

describe.each(['kysely', 'drizzle'] as const)('Auth.js with %s', (name) => {
  let adapter: Adapter
  beforeAll(async () => {
    const { config } = await (await openTestServer()).createDatabase()
    await using db = createClient(config)
    await db.batch(TABLES[name].split(';'))
    adapter = ADAPTERS[name](config)
  })

  test('a link in an email starts a session', async () => {
    const links: string[] = []
    const errors: string[] = []
    const config: AuthConfig = {
      adapter,
      secret: 'a secret for tests',
      trustHost: true,
      basePath: '/auth',
      logger: { error: ({ name }) => void errors.push(name) },
      providers: [
        {
          id: 'mail',
          type: 'email',
          name: 'Mail',
          from: 'app@example.com',
          maxAge: 600,
          options: {},
          sendVerificationRequest: async ({ url }) => void links.push(url),
        },
      ],
    }
    const cookies = new Map<string, string>()
    const sendRequest = async (url: string, form?: Record<string, string>): Promise<Response> => {
      const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
      const body = form && new URLSearchParams(form)
      const response = await Auth(
        new Request(new URL(url, 'http://localhost:3000'), {
          headers: { cookie },
          ...(body && { method: 'POST', body }),
        }),
        config,
      )
      for (const text of response.headers.getSetCookie()) {
        const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(text) ?? []
        cookies.set(key, value)
      }
      return response
    }

    const { csrfToken } = (await (await sendRequest('/auth/csrf')).json()) as { csrfToken: string }
    await sendRequest('/auth/signin/mail', { csrfToken, email: 'ada@example.com' })
    expect(links).toHaveLength(1)
    const [link = ''] = links
    expect(await (await sendRequest('/auth/session')).json()).toBeNull()
    await sendRequest(link)
    const session = (await (await sendRequest('/auth/session')).json()) as { user: unknown; expires: string }
    expect(session.user).toMatchObject({ email: 'ada@example.com' })
    expect(Date.parse(session.expires)).toBeGreaterThan(Date.now())
    expect(errors).toEqual([])
    // a link works once
    expect((await sendRequest(link)).headers.get('location')).toMatch(/error=Verification/)
    expect(errors).toEqual(['Verification'])
    await sendRequest('/auth/signout', { csrfToken })
    expect(await (await sendRequest('/auth/session')).json()).toBeNull()
  })

  test('an account is linked to a user, found by it, and deleted with the user', async () => {
    const created = await adapter.createUser?.({
      id: crypto.randomUUID(),
      email: 'grace@example.com',
      emailVerified: new Date(1_700_000_000_000),
    })
    const userId = created?.id as string
    const key = { provider: 'github', providerAccountId: '17' }
    await adapter.linkAccount?.({ ...key, userId, type: 'oauth', expires_at: 1_800_000_000 })
    const user = await adapter.getUserByAccount?.(key)
    expect(user).toMatchObject({ id: userId, emailVerified: new Date(1_700_000_000_000) })
    await expect(
      Promise.resolve(adapter.linkAccount?.({ ...key, userId: 'nobody', type: 'oauth' })),
    ).rejects.toThrow()
    await adapter.deleteUser?.(userId)
    expect(await adapter.getUserByAccount?.(key)).toBeNull()
  })
})
