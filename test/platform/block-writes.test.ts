// The effect of `block_writes` on open transactions, and on migrations of a shared schema.
import { expect, test } from 'vitest'
import { generateChange, hashDatabases, ROUTES, SCHEMA } from '../security/generated-statements.ts'
import { seeded } from '../support/random.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Harness, sql } from './platform-harness.ts'

const configure = (harness: Harness, name: string, body: object): Promise<unknown> =>
  harness.requestOk('PATCH', `databases/${name}/configuration`, { body })

const blockWrites = (harness: Harness, name: string): Promise<unknown> =>
  configure(harness, name, { block_writes: true })

test('an open transaction is rolled back, and cannot be committed', async () => {
  const harness = await Harness.forTest()
  const { host, token } = await harness.openDatabase('app', 'CREATE TABLE t (a)')
  const { baton } = await sql(host, token, ['BEGIN', 'INSERT INTO t VALUES (1)'], { keepOpen: true })
  await blockWrites(harness, 'app')
  expect(await sql(host, token, 'COMMIT', { baton })).toMatchObject({
    status: 400,
    error: 'Received an invalid baton',
  })
  expect(await sql(host, token, 'SELECT count(*) FROM t')).toMatchObject({ error: null, rows: [['0']] })
})

test('a read transaction with a read-only token continues', async () => {
  const harness = await Harness.forTest()
  const { host } = await harness.openDatabase('app', 'CREATE TABLE t (a)')
  const reader = await harness.tokenFor('app', '?authorization=read-only')
  const { baton } = await sql(host, reader, ['BEGIN', 'SELECT count(*) FROM t'], { keepOpen: true })
  await blockWrites(harness, 'app')
  const { baton: nextBaton, rows } = await sql(host, reader, 'SELECT count(*) FROM t', {
    baton,
    keepOpen: true,
  })
  expect(rows).toEqual([['0']])
  expect(await sql(host, reader, 'COMMIT', { baton: nextBaton })).toMatchObject({ status: 200, error: null })
})

test('no statement of a writer changes the file, however it is sent', async () => {
  const directory = createTemporaryDirectory()
  {
    await using harness = await Harness.start({}, directory)
    const { host, token } = await harness.openDatabase('app')
    expect(await sql(host, token, SCHEMA)).toMatchObject({ error: null })
    await blockWrites(harness, 'app')
    const before = await hashDatabases(directory)
    const random = seeded(60)
    for (const { path, body } of Object.values(ROUTES).flatMap((route) => [
      ...['drop index vec_e', 'EXPLAIN drop index vec_e', 'explain query plan drop table vec'].map(route),
      ...Array.from({ length: 40 }, () => route(generateChange(random))),
    ])) {
      const headers = { authorization: `Bearer ${token}` }
      const response = await fetch(`http://${host}${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      }).catch(() => null)
      const baton = /^\{"baton":"([^"]+)"/.exec((await response?.text().catch(() => '')) ?? '')?.[1]
      if (baton !== undefined)
        await fetch(`http://${host}/v3/pipeline`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ baton, requests: [{ type: 'close' }] }),
        })
    }
    expect(await hashDatabases(directory)).toEqual(before)
    expect(Object.keys(before).length).toBeGreaterThan(0)
  }
})

async function createSharedSchema() {
  const harness = await Harness.forTest()
  const parent = await harness.createDatabase('parent', { is_schema: true })
  const child = await harness.createDatabase('child', { schema: 'parent' })
  const token = await harness.tokenFor('parent')
  const childToken = await harness.tokenFor('child')
  return {
    harness,
    changeSchema: (text: string) => sql(parent.host, token, text),
    /** Sends a pipeline of requests to the schema database. @returns the response as text */
    send: async (requests: readonly object[]) => {
      const body = JSON.stringify({ requests: [...requests, { type: 'close' }] })
      const headers = { authorization: `Bearer ${token}` }
      return await (
        await fetch(`http://${parent.host}/v3/pipeline`, { method: 'POST', headers, body })
      ).text()
    },
    queryChild: (text: string) => sql(child.host, childToken, text),
  }
}

test('a migration of a shared schema changes a child whose writes are blocked', async () => {
  const { harness, changeSchema, queryChild } = await createSharedSchema()
  await blockWrites(harness, 'child')
  expect(await changeSchema('CREATE TABLE t (a)')).toMatchObject({ error: null })
  expect(await queryChild('SELECT count(*) FROM t')).toMatchObject({ error: null, rows: [['0']] })
  // the migration has not removed the block
  expect(await queryChild('INSERT INTO t VALUES (1)')).toMatchObject({ error: 'BLOCKED' })
})

test.each(['block_writes', 'block_reads'])(
  '%s on a schema database stops its migrations',
  async (setting) => {
    const { harness, changeSchema, send, queryChild } = await createSharedSchema()
    await changeSchema('CREATE TABLE t (a)')
    await configure(harness, 'parent', { [setting]: true })
    const stmt = { sql: 'CREATE TABLE u (a)' }
    const requests = [
      [{ type: 'execute', stmt }],
      [{ type: 'batch', batch: { steps: [{ stmt: { sql: 'BEGIN' } }, { stmt }] } }],
      [{ type: 'sequence', sql: 'SELECT 1; CREATE TABLE u (a); INSERT INTO t VALUES (1)' }],
      [
        { type: 'store_sql', sql_id: 1, sql: stmt.sql },
        { type: 'execute', stmt: { sql_id: 1 } },
      ],
    ]
    for (const pipeline of requests) expect(await send(pipeline)).toContain('Operation was blocked')
    expect((await queryChild("SELECT name FROM sqlite_schema WHERE name = 'u'")).rows).toEqual([])
    expect((await queryChild('SELECT count(*) FROM t')).rows).toEqual([['0']])
    expect((await queryChild('INSERT INTO t VALUES (1)')).error).toBeNull()
    const isReadable = setting === 'block_writes'
    expect((await changeSchema('SELECT count(*) FROM t')).error).toBe(isReadable ? null : 'BLOCKED')
    await configure(harness, 'parent', { [setting]: false })
    expect((await changeSchema(stmt.sql)).error).toBeNull()
    expect((await queryChild('SELECT count(*) FROM u')).rows).toEqual([['0']])
  },
)
