import { createClient, executeMultiple, readRows, restore, sql } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { expect, test } from 'vitest'
import { collect, holdWriteLock } from '../support/fixtures.ts'
import { openTursodb, requireTursodb } from '../support/tursodb.ts'

// Verifies the claims of docs/tursodb.md about the engine. If a test fails with a newer version, the engine may have
// improved.

requireTursodb()

const openServer = () => openTursodb(['create table t (a integer primary key, b text)'])

test('foreign keys are enforced on connections that enable them', async () => {
  const { db } = await openServer()
  await db.execute('create table c (a integer references t)')
  await db.execute('insert into c values (77)')
  await using stream = openStream(db)
  await stream.execute('pragma foreign_keys = on')
  await expect(stream.execute('insert into c values (78)')).rejects.toThrow('FOREIGN KEY')
})

test('statements before one that does not parse are executed', async () => {
  const { db } = await openServer()
  const selectNames = async (): Promise<unknown[]> =>
    (await db.execute('select b from t')).rows.map(({ b }) => b)
  const statements = ["insert into t (b) values ('kept')", 'selec 1']
  await expect(db.batch(statements)).rejects.toMatchObject({
    code: 'SQL_PARSE_ERROR',
    statementIndex: 1,
    outcome: 'not_applied',
  })
  expect(await selectNames()).toEqual([])
  await db.transaction(async (tx) => {
    await expect(tx.batch(statements)).rejects.toMatchObject({ outcome: 'unknown' })
  })
  expect(await selectNames()).toEqual(['kept'])
  await expect(executeMultiple(db, statements.join(';'))).rejects.toMatchObject({ outcome: 'unknown' })
  expect(await selectNames()).toEqual(['kept', 'kept'])
})

test('missing arguments are NULL, surplus ones and a second statement are ignored, and unknown names in double quotes are text', async () => {
  const { db } = await openServer()
  expect((await db.execute('select 1 as a', [2, 3])).rows).toEqual([{ a: 1 }])
  expect((await db.execute('select 1 as a; select 2 as a')).rows).toEqual([{ a: 1 }])
  expect((await db.execute('select ? as a, ? as b', [1])).rows).toEqual([{ a: 1, b: null }])
  await db.execute("insert into t values (1, 'x')")
  expect((await db.execute(sql`select "nmae" as a from t`)).rows).toEqual([{ a: 'nmae' }])
})

test('RETURNING uses the text of expressions as column names', async () => {
  const { db } = await openServer()
  const { columns } = await db.execute(`insert into t (b) values ('x') returning a, "b", "b" as c`)
  expect(columns).toEqual(['a', '"b"', 'c'])
})

test.each([
  [
    'with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select i from n',
    'Recursive CTEs',
  ],
  ['create table w (a text primary key) without rowid', 'experimental'],
  ['create table g (a integer, b generated always as (a + 1))', 'experimental'],
  ['vacuum', 'experimental'],
  ["attach 'other.db' as other", 'experimental'],
  ['create index v on t (libsql_vector_idx(b))', 'libsql_vector_idx'],
  ['begin readonly', 'not allowed here'],
  ['select count(*) from pragma_foreign_key_check', 'no such table'],
])('%s is rejected', async (text, message) => {
  const { db } = await openServer()
  await expect(db.execute(text)).rejects.toThrow(message)
})

test('pragma foreign_key_check finds nothing', async () => {
  const { db } = await openServer()
  await db.batch(['create table c (a integer references t)', 'insert into c values (77)'])
  expect((await db.execute('pragma foreign_key_check')).rows).toEqual([])
})

test('a dump is restored into a database in the journal mode mvcc', async () => {
  const { db } = await openTursodb(['pragma journal_mode = mvcc'])
  const dump = 'BEGIN TRANSACTION;\ncreate table t (a);\ninsert into t values (1);\nCOMMIT;\n'
  await restore(db, [dump])
  expect((await db.execute('select a from t')).rows).toEqual([{ a: 1 }])
  await expect(restore(db, [dump])).rejects.toThrow(TypeError)
})

test('in the journal mode mvcc, which is permanent, DDL makes a concurrent transaction fail', async () => {
  const { db, server } = await openServer()
  await db.execute('pragma journal_mode = mvcc')
  await using other = createClient({ url: server.url })
  expect((await other.execute('pragma journal_mode')).rows).toEqual([{ journal_mode: 'mvcc' }])
  const conflicting = db.transaction(
    async (tx) => {
      await tx.execute('select * from t')
      await other.execute('create table u (a)')
      await tx.execute("insert into t values (1, 'x')")
    },
    { mode: 'concurrent' },
  )
  await expect(conflicting).rejects.toMatchObject({ code: 'SQLITE_BUSY', outcome: 'not_applied' })
})

test('a cursor and the later statements of a script do not wait for the lock', async () => {
  const { db, server } = await openServer()
  await using other = createClient({ url: server.url })
  const release = await holdWriteLock(other)
  const busyError = { code: 'SQLITE_BUSY', outcome: 'not_applied' }
  const insert = "insert into t values (1, 'x')"
  await expect(executeMultiple(db, `select 1; ${insert}`)).rejects.toMatchObject(busyError)
  await expect(collect(readRows(db, `${insert} returning a`))).rejects.toMatchObject(busyError)
  await release()
  expect((await db.execute('select * from t')).rows).toEqual([])
})
