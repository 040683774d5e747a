import assert from 'node:assert/strict'
import { DrizzleAdapter } from '@auth/drizzle-adapter'
import { drizzle } from 'drizzle-orm/libsql'

const db = drizzle({ connection: { url: process.env.DATABASE_URL } })
await db.$client.executeMultiple(`drop table if exists user; drop table if exists account; drop table if exists session; drop table if exists verificationToken;
create table user (id text primary key, name text, email text unique, emailVerified integer, image text);
create table account (userId text not null references user(id) on delete cascade, type text not null, provider text not null, providerAccountId text not null, refresh_token text, access_token text, expires_at integer, token_type text, scope text, id_token text, session_state text, primary key(provider, providerAccountId));
create table session (sessionToken text primary key, userId text not null references user(id) on delete cascade, expires integer not null);
create table verificationToken (identifier text not null, token text not null, expires integer not null, primary key(identifier, token));`)
const a = DrizzleAdapter(db)
const u = await a.createUser({
  id: crypto.randomUUID(),
  name: 'x',
  email: 'x@y',
  emailVerified: new Date(1000),
})
assert.equal(u.emailVerified.getTime(), 1000)
await a.linkAccount({ userId: u.id, type: 'oauth', provider: 'g', providerAccountId: '1' })
assert.equal((await a.getUserByAccount({ provider: 'g', providerAccountId: '1' })).id, u.id)
await a.createSession({ sessionToken: 's', userId: u.id, expires: new Date(5000) })
assert.equal((await a.getSessionAndUser('s')).user.id, u.id)
await a.deleteSession('s')
await a.deleteUser(u.id)
assert.equal(await a.getUser(u.id), null)
db.$client.close()
console.log('auth: ok')
