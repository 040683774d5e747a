import assert from 'node:assert/strict'
import { createClient } from '@libsql/client'
import { PrismaLibSql } from '@prisma/adapter-libsql'
import { PrismaClient } from './generated/client.ts'

const url = process.env.DATABASE_URL
const raw = createClient({ url })
await raw.executeMultiple(`drop table if exists Post; drop table if exists User;
create table User (id integer primary key autoincrement not null, email text not null);
create unique index User_email_key on User(email);
create table Post (id integer primary key autoincrement not null, title text not null, score real not null default 0, big bigint not null default 0, data blob, at datetime not null default current_timestamp, authorId integer not null references User(id));`)
const prisma = new PrismaClient({ adapter: new PrismaLibSql({ url, intMode: 'bigint' }) })
const user = await prisma.user.create({
  data: {
    email: 'a@x',
    posts: {
      create: [{ title: 'one', big: 2n ** 60n, data: new Uint8Array([1, 2]), score: 1.5 }, { title: 'two' }],
    },
  },
  include: { posts: true },
})
assert.equal(user.posts.length, 2)
assert.equal(user.posts[0].big, 2n ** 60n)
assert.deepEqual([...user.posts[0].data], [1, 2])
assert(user.posts[0].at instanceof Date)
await assert.rejects(prisma.user.create({ data: { email: 'a@x' } }), (e) => {
  console.log(e.code, e.message.split('\n').at(-1))
  return e.code === 'P2002'
})
await prisma.$transaction(async (tx) => {
  await tx.post.update({ where: { id: user.posts[0].id }, data: { title: 'changed' } })
  assert.equal((await tx.post.findMany({ where: { title: 'changed' } })).length, 1)
})
await assert.rejects(
  prisma.$transaction(async (tx) => {
    await tx.post.deleteMany()
    throw new Error('no')
  }),
  /no/,
)
assert.equal(await prisma.post.count(), 2)
await prisma.$transaction([
  prisma.user.create({ data: { email: 'b@x' } }),
  prisma.post.deleteMany({ where: { title: 'two' } }),
])
assert.deepEqual(
  await prisma.user.findMany({
    select: { email: true, _count: { select: { posts: true } } },
    orderBy: { id: 'asc' },
  }),
  [
    { email: 'a@x', _count: { posts: 1 } },
    { email: 'b@x', _count: { posts: 0 } },
  ],
)
console.log(await prisma.$queryRaw`select typeof(score) as t, score from Post`)
await prisma.$disconnect()
raw.close()
console.log('prisma: ok')
