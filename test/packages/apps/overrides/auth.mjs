import assert from 'node:assert/strict'
import { DrizzleAdapter } from '@auth/drizzle-adapter'
import { drizzle } from 'drizzle-orm/libsql'

const db = drizzle({ connection: { url: process.env.DATABASE_URL } })
await db.$client.executeMultiple(`drop table if exists user; drop table if exists account; drop table if exists session; drop table if exists verificationToken;
create table user (id text primary key, name text, email text unique, emailVerified integer, image text);
create table account (userId text not null references user(id) on delete cascade, type text not null, provider text not null, providerAccountId text not null, refresh_token text, access_token text, expires_at integer, token_type text, scope text, id_token text, session_state text, primary key(provider, providerAccountId));
create table session (sessionToken text primary key, userId text not null references user(id) on delete cascade, expires integer not null);
create table verificationToken (identifier text not null, token text not null, expires integer not null, primary key(identifier, token));`)
const adapter = DrizzleAdapter(db)
const user = await adapter.createUser({
  id: crypto.randomUUID(),
  name: 'x',
  email: 'x@y',
  emailVerified: new Date(1000),
})
assert.equal(user.emailVerified.getTime(), 1000)
await adapter.linkAccount({ userId: user.id, type: 'oauth', provider: 'g', providerAccountId: '1' })
assert.equal((await adapter.getUserByAccount({ provider: 'g', providerAccountId: '1' })).id, user.id)
await adapter.createSession({ sessionToken: 's', userId: user.id, expires: new Date(5000) })
assert.equal((await adapter.getSessionAndUser('s')).user.id, user.id)
await adapter.deleteSession('s')
await adapter.deleteUser(user.id)
assert.equal(await adapter.getUser(user.id), null)
db.$client.close()
console.log('auth: ok')
