import {
  type Client,
  createClient,
  isCheckViolation,
  isForeignKeyViolation,
  isNotNullViolation,
  isUniqueViolation,
  readRows,
  SqlError,
} from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { startSqld } from '@batonsql/local-server/sqld'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { collect } from '../support/fixtures.ts'
import { findTargets } from '../support/targets.ts'
import { requireTursodb, startTursodb } from '../support/tursodb.ts'
import { phrases } from '../support/words.ts'

requireTursodb()

const SCHEMA = [
  `create table p (id integer primary key, u text unique, n text not null, c int check (c > 0),
     constraint few check (c < 100))`,
  'create table k (a, b, primary key (a, b))',
  'create table f (id integer primary key, p references p (id))',
  'create table later (id integer primary key, p references p (id) deferrable initially deferred)',
  'create table typed (a int, b any) strict',
  'create table rejecting (a)',
  "create trigger reject before insert on rejecting begin select raise(abort, 'no way'); end",
  "insert into p values (1, 'u', 'n', 1)",
]

const FAILING_SQL = phrases(`
  insert into p values (1, 'u2', 'n2', 1) | insert into p values (2, 'u', 'n2', 1)
  insert into p values (2, 'u2', null, 1) | insert into p values (2, 'u2', 'n2', 0)
  insert into p values (2, 'u2', 'n2', 1000) | insert into k values (1, 1), (1, 1)
  insert into f values (1, 77) | delete from p where id = 1 | insert into typed values ('x', 1)
  insert into rejecting values (1) | insert into p values ('x', 'u2', 'n2', 1) | selec 1
  select * from p where | select nope | select * from nope | create table p (a) | select json('x')
  select nofn(1) | select 'x | -- nothing | select zeroblob(2000000000) | select abs(-9223372036854775808) | release nothing
`)

const clients = new Map<string, Client>()
beforeAll(async () => {
  const urls = new Map([['tursodb', (await startTursodb()).url]])
  const sqld = (await findTargets()).find(({ name }) => name === 'sqld')
  if (sqld?.unavailableReason === null) {
    const server = await startSqld({ namespaces: false })
    cleanups.push(() => server.close())
    urls.set('sqld', server.url)
  }
  for (const [name, url] of urls) {
    const client = createClient({ url })
    cleanups.push(() => client.close())
    await client.batch(SCHEMA)
    await client.execute('insert into f values (9, 1)')
    clients.set(name, client)
  }
})
const cleanups: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const close of cleanups.reverse()) await close()
})

const getError = (promise: Promise<unknown>): Promise<SqlError> =>
  promise.then(
    () => {
      throw new Error('the statement was accepted')
    },
    (error: unknown) => error as SqlError,
  )

/** Runs a statement with foreign keys enabled, which the engine does not enforce by default. @returns the error */
async function getRejection(name: string, sql: string): Promise<SqlError> {
  const stream = openStream(clients.get(name) as Client)
  await stream.execute('pragma foreign_keys = on')
  const error = await getError(stream.execute(sql))
  await stream.close()
  return error
}

test.each(FAILING_SQL)('%s fails with the same error as on libsql-server', async (sql) => {
  const error = await getRejection('tursodb', sql)
  expect(error).toBeInstanceOf(SqlError)
  expect(error.message).not.toMatch(/failed: (?:Runtime|Parse|Transaction|near)|\(19\)/)
  if (!clients.has('sqld')) return
  const { code, extendedCode, constraint, outcome } = await getRejection('sqld', sql)
  expect(error).toMatchObject({ code, extendedCode, constraint, outcome })
})

test('an error names the kind, table and columns of its constraint', async () => {
  const db = clients.get('tursodb') as Client
  const unique = await getError(db.execute('insert into k values (1, 1), (1, 1)'))
  expect(unique.constraint).toEqual({ kind: 'unique', table: 'k', columns: ['a', 'b'] })
  expect(unique.message).toBe('UNIQUE constraint failed: k.a, k.b')
  expect(isUniqueViolation(unique)).toBe(true)
  expect(isNotNullViolation(await getRejection('tursodb', "insert into p values (2, 'u2', null, 1)"))).toBe(
    true,
  )
  expect(isCheckViolation(await getRejection('tursodb', "insert into p values (2, 'u2', 'n2', 0)"))).toBe(
    true,
  )
  expect(isForeignKeyViolation(await getRejection('tursodb', 'insert into f values (1, 77)'))).toBe(true)
})

test('RAISE() with the text of a lock error is not treated as one, so that nothing is executed twice', async () => {
  const db = clients.get('tursodb') as Client
  await db.execute('create table raising (a)')
  await db.execute(`create trigger raise_locked before insert on raising when new.a = 99
    begin select raise(fail, 'database is locked'); end`)
  const error = await getError(db.execute('insert into raising values (98), (99)'))
  expect(error).toMatchObject({ code: 'SQLITE_CONSTRAINT', message: 'database is locked' })
  const { rows } = await db.execute('select count(*) as n from raising')
  expect(rows[0]?.['n']).toBeLessThan(2)
})

test('a COMMIT reports the violation of a deferred foreign key', async () => {
  await using stream = openStream(clients.get('tursodb') as Client)
  await stream.execute('pragma foreign_keys = on')
  stream.begin()
  await stream.execute('insert into later values (1, 88)')
  const error = await getError(stream.commit())
  expect(error).toMatchObject({ code: 'SQLITE_CONSTRAINT', outcome: 'not_applied' })
  expect(isForeignKeyViolation(error)).toBe(true)
})

test('the error of a batch identifies the statement, and the batch is rolled back', async () => {
  const db = clients.get('tursodb') as Client
  const batch = ["insert into k values ('batch', 1)", 'select 1', "insert into k values ('batch', 1)"]
  const error = await getError(db.batch(batch))
  expect(error).toMatchObject({ code: 'SQLITE_CONSTRAINT', statementIndex: 2, outcome: 'not_applied' })
  expect((await db.execute("select * from k where a = 'batch'")).rows).toEqual([])
})

test('a cursor reports the same error', async () => {
  const db = clients.get('tursodb') as Client
  const error = await getError(collect(readRows(db, "select json('x')")))
  expect(error).toMatchObject({ code: 'SQLITE_UNKNOWN', message: 'malformed JSON' })
  const unique = await getError(collect(readRows(db, 'insert into k values (5, 5), (5, 5) returning a')))
  expect(unique).toMatchObject({ code: 'SQLITE_CONSTRAINT', constraint: { kind: 'unique', table: 'k' } })
})

test('a value that looks like an error is not changed', async () => {
  const text = '{"message":"step failed: Runtime error: UNIQUE constraint failed: k.(a, b) (19)"}'
  const db = clients.get('tursodb') as Client
  const stream = openStream(db)
  const [value, error] = await Promise.all([
    stream.execute({ sql: 'select ? as it', args: [text] }),
    getError(db.batch([{ sql: 'select ?', args: [text] }, "select json('x')"])),
  ])
  await stream.close()
  expect(value.rows).toEqual([{ it: text }])
  expect(Object.values(error.results[0] as { rows: object[] })).toContainEqual([{ '?': text }])
})
