// ATTACH of another database of the server, and tokens with permissions for tables (`perm`), which only the embedded server
// supports.
import type { KeyObject } from 'node:crypto'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { createGroupKey } from './group-key.ts'
import { TokenForge } from './token-forge.ts'
import { close, execute } from './wire.ts'

const directory = createTemporaryDirectory(afterAll)
let server: LocalServer
let forge: TokenForge
let key: KeyObject

beforeAll(async () => {
  key = await createGroupKey(directory)
  server = await startLocalServer({ auth: true, dataDirectory: directory })
  for (const name of ['foo', 'bar']) {
    await server.createDatabase(name, { allowAttach: name === 'foo' })
  }
  forge = await TokenForge.open(server, key)
  for (const name of ['foo', 'bar'])
    await run(name, { a: 'rw' }, 'CREATE TABLE t(a)', 'INSERT INTO t VALUES(1)')
  await run('default', { a: 'rw' }, 'CREATE TABLE own(a)')
})
afterAll(async () => {
  await server.close()
})

async function send(
  database: string,
  claims: object,
  requests: readonly object[],
  baton?: string,
): Promise<{ status: number; body: string }> {
  const response = await fetch(new URL('v3/pipeline', server.urlOf(database).replace(/\/?$/, '/')), {
    method: 'POST',
    headers: { authorization: `Bearer ${forge.forge(claims as Readonly<Record<string, unknown>>)}` },
    body: JSON.stringify({ ...(baton !== undefined && { baton }), requests }),
  })
  return { status: response.status, body: await response.text() }
}

/** Returns the outcome of each statement, its rows or its error, or the body of a response with a status other than 200. */
async function run(database: string, claims: object, ...statements: readonly string[]): Promise<unknown> {
  const { status, body } = await send(database, claims, [...statements.map((sql) => execute(sql)), close])
  return status === 200 ? parseOutcomes(body).slice(0, -1) : { status, ...(JSON.parse(body) as object) }
}

/** Runs statements one after the other, and compares the outcome of each with the expected one next to it. */
async function expectOutcomes(
  database: string,
  claims: object,
  expected: readonly (readonly [sql: string, outcome: unknown])[],
): Promise<void> {
  const outcomes = await run(database, claims, ...expected.map(([sql]) => sql))
  expect(outcomes).toEqual(expected.map(([, outcome]) => outcome))
}

function parseOutcomes(body: string): unknown[] {
  const { results } = JSON.parse(body) as {
    results: {
      error?: { code: string; message: string }
      response?: { result?: { rows: { value?: unknown }[][] } }
    }[]
  }
  return results.map(
    ({ error, response }) =>
      (error && `${error.code} ${error.message}`) ??
      response?.result?.rows.map((row) => row.map(({ value }) => value).join()) ??
      [],
  )
}

describe('ATTACH', () => {
  const ATTACH_FOO_CLAIMS = { p: { rwa: { ns: ['default', 'foo'] } } }

  test('reads a database that allows it, and cannot write to it', async () => {
    await expectOutcomes('default', ATTACH_FOO_CLAIMS, [
      ['ATTACH foo AS f', []],
      ['SELECT a FROM f.t', ['1']],
      ['INSERT INTO f.t VALUES(2)', 'SQLITE_READONLY SQLite error: attempt to write a readonly database'],
      ['INSERT INTO own SELECT a FROM f.t RETURNING a', ['1']],
      ['DETACH f', []],
      ['SELECT a FROM f.t', 'SQLITE_UNKNOWN SQLite error: no such table: f.t'],
    ])
    expect(await run('foo', { a: 'rw' }, 'SELECT count(*) FROM t')).toEqual([['1']])
  })

  test('works by id, with the keyword DATABASE, in a batch, and twice on one stream', async () => {
    const steps = [
      `ATTACH DATABASE "${forge.idOf('foo')}" AS f`,
      'ATTACH foo AS g',
      'SELECT f.t.a + g.t.a FROM f.t, g.t',
    ]
    const batch = { type: 'batch', batch: { steps: steps.map((sql) => ({ stmt: { sql } })) } }
    const { body } = await send('default', ATTACH_FOO_CLAIMS, [batch, close])
    expect(body).toContain('{"type":"integer","value":"2"}')
  })

  test('sees earlier commits, even if they are still in the WAL, but not later ones', async () => {
    await run('foo', { a: 'rw' }, 'CREATE TABLE IF NOT EXISTS log(a)', 'INSERT INTO log VALUES (1), (2)')
    const firstReply = await send('default', ATTACH_FOO_CLAIMS, [
      execute('ATTACH foo AS f'),
      execute('SELECT count(*) FROM f.log'),
    ])
    expect(parseOutcomes(firstReply.body)).toEqual([[], ['2']])
    await run('foo', { a: 'rw' }, 'INSERT INTO log VALUES (3)')
    const { baton } = JSON.parse(firstReply.body) as { baton: string }
    const secondReply = await send(
      'default',
      ATTACH_FOO_CLAIMS,
      [execute('SELECT count(*) FROM f.log'), close],
      baton,
    )
    expect(parseOutcomes(secondReply.body)).toEqual([['2'], []])
    await expectOutcomes('default', ATTACH_FOO_CLAIMS, [
      ['ATTACH foo AS f', []],
      ['SELECT count(*) FROM f.log', ['3']],
    ])
  })

  test.each([
    [{ a: 'rw' }, 'foo', "Current session doesn't not have AttachRead permission to namespace foo"],
    [{ a: 'ro' }, 'foo', "Current session doesn't not have AttachRead permission to namespace foo"],
    [{ p: { rwa: { ns: ['default', 'bar'] } } }, 'bar', "Namespace `bar` doesn't allow attach"],
    [{ p: { rwa: { ns: ['default', 'nope'] } } }, 'nope', "Namespace `nope` doesn't allow attach"],
  ])('is rejected with claims %j for %s, before any statement runs', async (claims, name, reason) => {
    const result = await run('default', claims, `ATTACH ${name} AS f`)
    expect(result).toEqual({ status: 403, error: `Authorization forbidden: ${reason}` })
    const steps = ['INSERT INTO own VALUES (77)', `ATTACH ${name} AS f`].map((sql) => ({ stmt: { sql } }))
    const { status } = await send('default', claims, [{ type: 'batch', batch: { steps } }, close])
    expect(status).toBe(403)
    expect(await run('default', { a: 'ro' }, 'SELECT count(*) FROM own WHERE a = 77')).toEqual([['0']])
  })

  test('works with `roa` for the attached database and `rw` for the other', async () => {
    const claims = { p: { rw: { ns: ['default'] }, roa: { ns: ['foo'] } } }
    expect(await run('default', claims, 'ATTACH foo AS f')).toEqual([[]])
    expect(await run('default', { a: 'roa' }, 'ATTACH foo AS f')).toEqual([[]])
  })

  test('rejects files and literals', async () => {
    for (const sql of ["ATTACH '/etc/passwd' AS f", "ATTACH 'foo' AS f"])
      expect(await run('default', ATTACH_FOO_CLAIMS, sql)).toEqual([
        expect.stringContaining('SQL_PARSE_ERROR SQL string could not be parsed: unsupported statement'),
      ])
    for (const sql of ['ATTACH "/attached/1.db" AS f', 'ATTACH "../foo/data.db" AS f'])
      expect(await run('default', ATTACH_FOO_CLAIMS, sql)).toMatchObject({ status: 403 })
  })
})

describe('permissions for tables', () => {
  const createLimitedClaims = (permission: object): object => ({ a: 'rw', perm: [permission] })
  const denied = expect.stringContaining('not authorized')

  beforeAll(async () => {
    await run(
      'default',
      { a: 'rw' },
      'CREATE TABLE orders(id INTEGER PRIMARY KEY, total)',
      'CREATE TABLE people(name)',
      "INSERT INTO people VALUES ('Ada')",
      'CREATE VIEW everybody AS SELECT name FROM people',
      'CREATE TABLE audited(a)',
      'CREATE TRIGGER counted AFTER INSERT ON audited BEGIN DELETE FROM people; END',
    )
  })

  test('restrict reading', async () => {
    const claims = createLimitedClaims({ t: ['orders'], a: ['data_read'] })
    await expectOutcomes('default', claims, [
      ['SELECT count(*) FROM orders', ['0']],
      ['SELECT * FROM people', denied],
      ['SELECT * FROM everybody', denied],
      ['SELECT (SELECT count(*) FROM people)', denied],
      ["SELECT name FROM sqlite_schema WHERE name = 'people'", ['people']],
      ["SELECT value FROM json_each('[1]')", ['1']],
      ['INSERT INTO orders(total) VALUES (1)', denied],
      ['UPDATE orders SET total = 2', denied],
      ['DELETE FROM orders', denied],
      ['DROP TABLE orders', denied],
      ['CREATE TABLE x(a)', denied],
    ])
  })

  test('do not allow PRAGMAs that change settings', async () => {
    const actions = ['data_read', 'data_add', 'data_update', 'data_delete', 'schema_add', 'schema_update']
    await expectOutcomes('default', createLimitedClaims({ t: null, a: actions }), [
      ['PRAGMA user_version = 7', denied],
      ['PRAGMA user_version(7)', denied],
      ['PRAGMA main.user_version = 7', denied],
      ['PRAGMA foreign_keys = OFF', denied],
      ['PRAGMA defer_foreign_keys = ON', denied],
      ['EXPLAIN PRAGMA user_version = 7', denied],
      ['PRAGMA foreign_key_check(orders)', []],
      ['PRAGMA user_version', ['0']],
      ["SELECT name FROM pragma_table_info('orders') WHERE cid = 0", ['id']],
    ])
    expect(await run('default', { a: 'rw' }, 'PRAGMA user_version = 0')).toEqual([[]])
  })

  test('to add rows do not allow changing, replacing or deleting rows, nor the actions of triggers', async () => {
    const claims = createLimitedClaims({ t: ['Orders', 'audited'], a: ['data_add', 'data_read'] })
    await expectOutcomes('default', claims, [
      ['INSERT INTO orders VALUES (1, 10)', []],
      ['INSERT OR REPLACE INTO orders VALUES (1, 11)', denied],
      ['REPLACE INTO orders VALUES (1, 11)', denied],
      ['INSERT INTO orders VALUES (1, 12) ON CONFLICT DO UPDATE SET total = 12', denied],
      ['INSERT INTO audited VALUES (1)', denied],
      ['INSERT INTO people VALUES (1)', denied],
      ['SELECT total FROM orders', ['10']],
    ])
    expect(await run('default', { a: 'ro' }, 'SELECT count(*) FROM people')).toEqual([['1']])
  })

  test('apply to the schema', async () => {
    const claims = createLimitedClaims({ t: null, a: ['schema_add', 'data_read'] })
    await expectOutcomes('default', claims, [
      ['CREATE TABLE made(a)', []],
      ['CREATE INDEX made_a ON made(a)', []],
      ['ALTER TABLE made ADD COLUMN b', denied],
      ['DROP TABLE made', denied],
      ['INSERT INTO made VALUES (1)', denied],
    ])
    const ownerClaims = createLimitedClaims({ t: ['made'], a: ['schema_update', 'schema_delete'] })
    await expectOutcomes('default', ownerClaims, [
      ['ALTER TABLE made ADD COLUMN b', []],
      ['DROP INDEX made_a', []],
      ['DROP TABLE people', denied],
      ['DROP TABLE made', []],
    ])
  })

  test('requests that read all tables need permission for all of them', async () => {
    const ordersToken = forge.forge({ a: 'rw', perm: [{ t: ['orders'], a: ['data_read'] }] })
    const allTablesToken = forge.forge({ a: 'rw', perm: [{ t: null, a: ['data_read'] }] })
    const get = async (path: string, token: string): Promise<number> => {
      const controller = new AbortController()
      const headers = { authorization: `Bearer ${token}` }
      const { status } = await fetch(`${server.url}${path}`, { headers, signal: controller.signal })
      controller.abort()
      return status
    }
    expect(await get('/dump', ordersToken)).toBe(403)
    expect(await get('/export/1', ordersToken)).toBe(403)
    expect(await get('/dump', allTablesToken)).toBe(200)
    expect(await get('/beta/listen?table=people', ordersToken)).toBe(403)
    expect(await get('/beta/listen?table=orders', ordersToken)).toBe(200)
  })

  test.each([
    [[{ t: ['orders'], a: ['data_insert'] }]],
    [[{ t: 'orders', a: ['data_read'] }]],
    [[{ t: null }]],
    ['all'],
  ])('a token with %j is invalid', async (perm) => {
    expect(await run('default', { a: 'rw', perm }, 'SELECT 1')).toMatchObject({
      status: 401,
      error: 'Unauthorized: `The JWT is invalid`',
    })
  })

  test('apply to a schema database, and therefore to its children', async () => {
    await server.createDatabase('plan', { isSchema: true })
    await server.createDatabase('plan-kid', { schema: 'plan' })
    // opened again for the ids of the new databases
    forge = await TokenForge.open(server, key)
    const ownerClaims = { p: { ddl: { ns: ['plan'] } } }
    const tables = ['CREATE TABLE open(a)', 'CREATE TABLE closed(a)', 'INSERT INTO closed VALUES (1)']
    await run('plan', ownerClaims, ...tables)
    const limitedClaims = { ...ownerClaims, perm: [{ t: ['open'], a: ['data_add'] }] }
    await expectOutcomes('plan', limitedClaims, [
      ['DELETE FROM closed RETURNING a', denied],
      ['DROP TABLE closed', denied],
      ['INSERT INTO open VALUES (1)', []],
    ])
    await expectOutcomes('plan-kid', { a: 'ro' }, [
      ['SELECT count(*) FROM closed', ['1']],
      ['SELECT count(*) FROM open', ['1']],
    ])
  })

  test('do not allow ATTACH', async () => {
    const claims = { p: { rwa: { ns: ['default', 'foo'] } }, perm: [{ t: null, a: ['data_read'] }] }
    expect(await run('default', claims, 'ATTACH foo AS f')).toMatchObject({ status: 403 })
  })
})
