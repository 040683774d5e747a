import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'
import { connectAgent, startAgent } from '../mcp-agent.ts'

const server = await openTestServer()
const { url, authToken, config } = await server.createDatabase()
const env = authToken === undefined ? {} : { BATON_AUTH_TOKEN: authToken }
const db = createClient(config)
const agent = await startAgent([url], env)
const writer = await startAgent([url, '--write'], env)
afterAll(() => db.close())

beforeAll(async () => {
  await db.batch([
    'create table pet (id integer primary key, name text not null, "__proto__" blob)',
    'create index pet_by_name on pet (name)',
    'create trigger pet_log after insert on PET begin select new.id; end',
    'create view names as select name from pet',
    'create view broken as select * from missing',
    "insert into pet values (9007199254740993, 'Rex', x'00ff'), (2, 'Mia', null)",
  ])
})

const countPets = async (): Promise<unknown> => (await db.execute('select count(*) as n from pet')).rows[0]

test('shows the columns, and the statements that created tables, indexes and views', async () => {
  const { value } = await agent.call('schema')
  expect(value).toEqual({
    columns: ['table', 'type', 'columns', 'statements'],
    rows: [
      ['broken', 'view', null, 'CREATE VIEW broken as select * from missing'],
      ['names', 'view', null, 'CREATE VIEW names as select name from pet'],
      [
        'pet',
        'table',
        'id INTEGER, name TEXT, __proto__ BLOB',
        'CREATE TABLE pet (id integer primary key, name text not null, "__proto__" blob);\nCREATE INDEX pet_by_name on pet (name);\nCREATE TRIGGER pet_log after insert on PET begin select new.id; end',
      ],
    ],
  })
  expect((await agent.call('schema', { table: 'NAMES' })).value.rows).toHaveLength(1)
  expect((await agent.call('schema', { table: "x' or 1" })).value.rows).toEqual([])
})

test('rejects an integer argument that was rounded in JSON', async () => {
  const sql = 'select name from pet where id = ?'
  expect((await agent.call('query', { sql, args: [2 ** 53] })).error).toContain('pass it as text')
  expect((await agent.call('query', { sql, args: ['9007199254740993'] })).value.rows).toEqual([['Rex']])
})

test('returns exact values and duplicate columns, accepts arguments, and limits the number of rows', async () => {
  expect(
    (await agent.call('query', { sql: 'select *, 1.5 as x, 2 as x from pet where name = ?', args: ['Rex'] }))
      .value,
  ).toEqual({
    columns: ['id', 'name', '__proto__', 'x', 'x'],
    rows: [['9007199254740993', 'Rex', { base64: 'AP8=' }, 1.5, 2]],
  })
  const numbers = 'with recursive n(i) as (select 1 union all select i + 1 from n) select i from n'
  expect((await agent.call('query', { sql: numbers, maxRows: 2 })).value).toEqual({
    columns: ['i'],
    rows: [[1], [2]],
    incomplete: 'There are more than 2 rows.',
  })
  expect((await agent.call('query', { sql: `${numbers} limit 2`, maxRows: 2 })).value).not.toHaveProperty(
    'incomplete',
  )
  const largeResult = await agent.call('query', {
    sql: `select printf('%.*c', 3000, 'x') from (${numbers})`,
    maxRows: 1_000,
  })
  expect(largeResult.value.incomplete).toMatch(/^Only the first \d+ rows fit\.$/)
  const [[text, blob]] = (
    await agent.call('query', { sql: "select printf('%.*c', 100000, 'y'), zeroblob(5000)" })
  ).value.rows
  expect([text.characters, text.beginning.length, blob.bytes]).toEqual([100_000, 4_000, 5_000])
})

test('returns the plan of a query, and of a statement that writes, without running it', async () => {
  const getPlan = async (sql: string): Promise<string> =>
    JSON.stringify((await agent.call('query_plan', { sql })).value.rows)
  expect(await getPlan("select * from pet where name = 'Rex'")).toContain('pet_by_name')
  expect(await getPlan('select * from pet where "__proto__" is null')).toContain('SCAN pet')
  const before = await countPets()
  expect(await getPlan('delete from pet where id > 0')).toContain('SEARCH pet')
  expect(await countPets()).toEqual(before)
})

test.each([
  "insert into pet (name) values ('new')",
  "with new as (select 'new') insert into pet (name) select * from new returning id",
  'delete from pet',
  'drop table pet',
  'create table other (a)',
  'pragma user_version = 7',
  'select 1; delete from pet',
  'begin immediate',
  'commit; delete from pet',
  '/* */ commit',
  'rollback; delete from pet',
  'end',
  "attach 'other.db' as other",
  'vacuum',
  'explain select 1; delete from pet',
])('%s changes nothing', async (sql) => {
  const readState = async (): Promise<unknown> => {
    const results = await db.batch([
      'select * from pet',
      'select sql from sqlite_schema',
      'pragma user_version',
    ])
    return results.map(({ rows }) => rows)
  }
  const before = await readState()
  expect(await agent.call('query', { sql })).toEqual({ error: expect.stringMatching(/./) })
  expect(await agent.call('query_plan', { sql: `select 1; ${sql}` })).toEqual({
    error: expect.stringMatching(/./),
  })
  expect(await readState()).toEqual(before)
  // no write lock is left behind
  await db.execute("update pet set name = name where name = 'Mia'")
})

// libSQL executes these statements when it prepares them
test('a vector index is not dropped by queries and plans that are refused', async () => {
  await db.batch([
    'create table vec (id integer primary key, e F32_BLOB(2))',
    'create index vec_e on vec(libsql_vector_idx(e))',
  ])
  for (const sql of [
    'drop index vec_e',
    '/* select */ ;DROP INDEX vec_e',
    'explain drop index vec_e',
    'explain query plan drop table vec',
  ])
    expect((await agent.call('query', { sql })).error).toContain('may change the database')
  expect((await agent.call('query_plan', { sql: 'drop index vec_e' })).error).toContain(
    'may change the database',
  )
  await db.batch([
    "insert into vec values (1, vector('[1,2]'))",
    "select id from vector_top_k('vec_e', vector('[1,2]'), 1)",
    'drop table vec',
  ])
})

test('has no tool that writes without --write', async () => {
  const { tools } = await agent.client.listTools()
  expect(tools.map(({ name, annotations }) => [name, annotations?.readOnlyHint])).toEqual(
    ['schema', 'query', 'query_plan', 'recent_requests'].map((name) => [name, true]),
  )
  expect((await agent.call('execute', { sql: 'delete from pet' })).error).toContain('execute')
})

test('with --write, runs statements in one transaction', async () => {
  const created = await writer.call('execute', {
    sql: 'create table log (a); insert into log values (1), (2); update log set a = 3 where a = 1',
  })
  expect(created.value.map((result: { rowsAffected: number }) => result.rowsAffected)).toEqual([0, 2, 1])
  const failed = await writer.call('execute', { sql: 'delete from log; insert into log values (9, 9)' })
  expect(failed.error).toContain('log')
  expect((await writer.call('execute', { sql: 'delete from log; commit; nonsense' })).error).toContain(
    'COMMIT',
  )
  expect(
    (await db.execute('select a from log order by a', [], { rowMode: 'array' })).rows.map(([a]) => a),
  ).toEqual([2, 3])
})

test('reports invalid input, unknown tables and syntax errors as results, and keeps working', async () => {
  expect((await agent.call('query', { sql: 'select', maxRows: 0 })).error).toContain('maxRows')
  expect((await agent.call('query', {})).error).toContain('sql')
  expect((await agent.call('query', { sql: 'select * from nowhere' })).error).toContain('nowhere')
  expect((await agent.call('query', { sql: 'selec 1' })).error).toContain('Only SELECT')
  expect((await agent.call('query', { sql: 'select selec' })).error).toContain('selec')
  expect((await agent.call('query', { sql: '' })).error).toMatch(/statement/)
  expect((await agent.call('query', { sql: 'select 1 as one' })).value.rows).toEqual([[1]])
})

test('a transaction whose first write violated a constraint is shown as the holder of the write lock', async () => {
  await using local = await startLocalServer({
    backend: inject('target') === 'sqld' ? 'sqld' : 'embedded',
    inspector: true,
  })
  const { client, call } = await connectAgent([local.url])
  onTestFinished(() => client.close())
  await using localDb = createClient({ url: local.url })
  await expect.poll(async () => (await call('recent_requests')).error).toBeUndefined()
  await localDb.execute('create table one (id integer check (id = 1))')
  await localDb.transaction(
    async (tx) => {
      await expect(tx.execute('insert into one values (2)')).rejects.toThrow('CHECK')
      await expect
        .poll(async () => (await call('recent_requests')).value.writeLocks)
        .toEqual([expect.objectContaining({ database: 'default', state: 'open' })])
    },
    { mode: 'deferred' },
  )
})
