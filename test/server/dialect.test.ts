/*
 * Where the two real servers differ, the embedded server responds like the configured one. The tests correspond to the rows of
 * the table in the specification (sqld versus cloud contract). Rows that are the same in both are tested elsewhere.
 */
import { type Dialect, type LocalServer, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { autocommit, close, codes, execute, pipeline, query, type WireRequest } from './wire.ts'

const servers = new Map<Dialect | 'default', LocalServer>()
beforeAll(async () => {
  servers.set('default', await startLocalServer())
  for (const dialect of ['sqld', 'cloud'] as const) servers.set(dialect, await startLocalServer({ dialect }))
})
afterAll(async () => {
  for (const server of servers.values()) await server.close()
})

function getUrl(dialect: Dialect | 'default'): string {
  return (servers.get(dialect) as LocalServer).url
}

const executeRequest = (stmt: Readonly<Record<string, unknown>>): WireRequest => ({ type: 'execute', stmt })
const storeSql = (id: number, sql: string): WireRequest => ({ type: 'store_sql', sql_id: id, sql })

/** Returns the first result of requests on a new stream, in wire format. */
async function getFirstResult(dialect: Dialect | 'default', ...requests: WireRequest[]): Promise<unknown> {
  const { results } = await pipeline(getUrl(dialect), [...requests, close])
  return results[0]?.error ?? results[0]?.response
}

describe.each(['default', 'sqld'] as const)('%s, like libsql-server', (dialect) => {
  test('always returns a baton, and responds to an invalid one with 400', async () => {
    const { baton } = await pipeline(getUrl(dialect), [execute('SELECT 1')])
    expect(baton).toHaveLength(64)
    const closed = await pipeline(getUrl(dialect), [close], { baton })
    expect(closed.status).toBe(200)
    const reused = await pipeline(getUrl(dialect), [close], { baton })
    expect([reused.status, reused.text]).toEqual([400, 'Received an invalid baton'])
  })

  test('accepts close anywhere in a pipeline', async () => {
    const reply = await pipeline(getUrl(dialect), [execute('SELECT 1'), close, close])
    expect(codes(reply)).toEqual(['ok', 'ok', 'ok'])
  })

  test('errors have the codes and messages of libsql-server; the default dialect adds the extended code', async () => {
    await query(getUrl(dialect), 'CREATE TABLE u (a UNIQUE, b INTEGER PRIMARY KEY)')
    const codesByColumn = { a: 'SQLITE_CONSTRAINT_UNIQUE', b: 'SQLITE_CONSTRAINT_PRIMARYKEY' }
    for (const [column, extended_code] of Object.entries(codesByColumn)) {
      const message = `SQLite error: UNIQUE constraint failed: u.${column}`
      expect(await getFirstResult(dialect, execute(`INSERT INTO u (${column}) VALUES (1), (1)`))).toEqual({
        code: 'SQLITE_CONSTRAINT',
        message,
        ...(dialect === 'default' && { extended_code }),
      })
    }
    expect(await getFirstResult(dialect, execute(''))).toMatchObject({ code: 'SQL_NO_STATEMENT' })
    expect(await getFirstResult(dialect, execute('SELECT ?'))).toMatchObject({ code: 'ARGS_INVALID' })
  })

  test('returns rows even if want_rows is false, and the replication index in the result', async () => {
    const reply = await getFirstResult(dialect, executeRequest({ sql: 'SELECT 1', want_rows: false }))
    expect(reply).toMatchObject({ result: { rows: [[{ value: '1' }]] } })
    expect(reply).toHaveProperty('result.replication_index')
  })

  test('prefixes are part of parameter names', async () => {
    const namedArgs = [{ name: '@a', value: { type: 'null' } }]
    expect(
      await getFirstResult(dialect, executeRequest({ sql: 'SELECT :a', named_args: namedArgs })),
    ).toMatchObject({ code: 'ARGS_INVALID' })
    expect(await getFirstResult(dialect, { type: 'describe', sql: 'SELECT :a, @b, $c, ?' })).toMatchObject({
      result: { params: [{ name: ':a' }, { name: '@b' }, { name: '$c' }, { name: null }] },
    })
  })

  test('stored SQL is not replaced', async () => {
    const reply = await pipeline(getUrl(dialect), [storeSql(1, 'SELECT 1'), storeSql(1, 'SELECT 2')])
    expect([reply.status, reply.text]).toEqual([400, 'SQL text 1 already exists'])
  })
})

describe('cloud', () => {
  test('returns no baton if nothing depends on the stream', async () => {
    expect((await pipeline(getUrl('cloud'), [execute('SELECT 1')])).baton).toBeNull()
    const setting = await pipeline(getUrl('cloud'), [execute('PRAGMA foreign_keys = OFF')])
    const stored = await pipeline(getUrl('cloud'), [storeSql(1, 'SELECT 1')])
    const transaction = await pipeline(getUrl('cloud'), [execute('BEGIN')])
    for (const { baton } of [setting, stored, transaction]) expect(baton).toHaveLength(64)
    const commit = await pipeline(getUrl('cloud'), [autocommit, execute('COMMIT')], {
      baton: transaction.baton,
    })
    expect([commit.results[0]?.response?.is_autocommit, commit.baton]).toEqual([false, null])
  })

  test('returns a baton after a write, because last_insert_rowid() and changes() depend on it', async () => {
    await query(getUrl('cloud'), 'CREATE TABLE changed (a INTEGER PRIMARY KEY UNIQUE)')
    for (const [sql, expected] of [
      ['INSERT INTO changed VALUES (7)', ['7', '1']],
      ['INSERT INTO changed VALUES (8), (7)', ['8', '0']],
      ['UPDATE changed SET a = 9', ['0', '1']],
    ] as const) {
      const { baton } = await pipeline(getUrl('cloud'), [execute(sql)])
      const state = [execute('SELECT last_insert_rowid(), changes()'), close]
      const { results } = await pipeline(getUrl('cloud'), state, { baton })
      expect(results[0]?.response?.result?.rows[0]?.map(({ value }) => value)).toEqual(expected)
    }
    expect((await pipeline(getUrl('cloud'), [execute('DELETE FROM changed WHERE a = 0')])).baton).toBeNull()
  })

  test('responds with 404 and {"error"} to invalid and used batons', async () => {
    const { baton } = await pipeline(getUrl('cloud'), [execute('BEGIN')])
    await pipeline(getUrl('cloud'), [execute('SELECT 1')], { baton })
    for (const [invalidBaton, message] of [
      ['none', 'Received an invalid baton'],
      [baton, 'Received a baton that has already been used'],
    ] as const) {
      const reply = await pipeline(getUrl('cloud'), [close], { baton: invalidBaton })
      expect([reply.status, reply.text]).toEqual([404, JSON.stringify({ error: message })])
    }
  })

  test('rejects a pipeline in which close is not the last request', async () => {
    await query(getUrl('cloud'), 'CREATE TABLE untouched (a)')
    const reply = await pipeline(getUrl('cloud'), [execute('INSERT INTO untouched VALUES (1)'), close, close])
    expect([reply.status, reply.text]).toEqual([
      400,
      '{"error":"close must be the last request of a pipeline"}',
    ])
    expect(await query(getUrl('cloud'), 'SELECT a FROM untouched')).toEqual([])
  })

  test('errors contain more details, with the messages of SQLite', async () => {
    await query(getUrl('cloud'), 'CREATE TABLE p (a INTEGER PRIMARY KEY, b UNIQUE NOT NULL CHECK (b > 0))')
    const codesByStatement: Readonly<Record<string, string>> = {
      'INSERT INTO p (b) VALUES (1), (1)': 'SQLITE_CONSTRAINT_UNIQUE',
      'INSERT INTO p VALUES (1, 1), (1, 2)': 'SQLITE_CONSTRAINT_PRIMARYKEY',
      'INSERT INTO p (b) VALUES (null)': 'SQLITE_CONSTRAINT_NOTNULL',
      'INSERT INTO p (b) VALUES (0)': 'SQLITE_CONSTRAINT_CHECK',
    }
    for (const [sql, extended] of Object.entries(codesByStatement))
      expect(await getFirstResult('cloud', execute(sql))).toMatchObject({
        code: 'SQLITE_CONSTRAINT',
        extended_code: extended,
        message: expect.stringMatching(/^[A-Z ]+ constraint failed: /) as unknown,
      })
    const noTable = { code: 'SQLITE_UNKNOWN', message: 'no such table: missing' }
    expect(await getFirstResult('cloud', execute('SELECT 1 FROM missing'))).toEqual(noTable)
    expect(await getFirstResult('cloud', execute(''))).toMatchObject({ code: 'SQL_PARSE_ERROR' })
    expect(await getFirstResult('cloud', execute('SELECT ?'))).toMatchObject({ code: 'SQL_INPUT_ERROR' })
    const steps = [{ stmt: { sql: 'INSERT INTO p (b) VALUES (0)' } }]
    expect(await getFirstResult('cloud', { type: 'batch', batch: { steps } })).toMatchObject({
      result: { step_errors: [{ extended_code: 'SQLITE_CONSTRAINT_CHECK' }] },
    })
  })

  test('returns rows only if want_rows is true, and no replication index in the result', async () => {
    const withoutRows = await getFirstResult(
      'cloud',
      executeRequest({ sql: 'SELECT 1 AS a', want_rows: false }),
    )
    expect(withoutRows).toMatchObject({ result: { cols: [{ name: 'a' }], rows: [] } })
    expect(withoutRows).not.toHaveProperty('result.replication_index')
    const withRows = await getFirstResult('cloud', executeRequest({ sql: 'SELECT 1', want_rows: true }))
    expect(withRows).toMatchObject({ result: { rows: [[{ value: '1' }]] } })
    await query(getUrl('cloud'), 'CREATE TABLE kept (a)')
    await getFirstResult(
      'cloud',
      executeRequest({ sql: 'INSERT INTO kept VALUES (1) RETURNING a', want_rows: false }),
    )
    expect(await query(getUrl('cloud'), 'SELECT a FROM kept')).toEqual([['1']])
  })

  test('prefixes are not part of parameter names', async () => {
    for (const name of ['a', ':a', '@a', '$a']) {
      const namedArgs = [{ name, value: { type: 'text', value: 'x' } }]
      const bound = await getFirstResult(
        'cloud',
        executeRequest({ sql: 'SELECT :a, @a, $a', named_args: namedArgs }),
      )
      const cell = { type: 'text', value: 'x' }
      expect(bound).toMatchObject({ result: { rows: [[cell, cell, cell]] } })
    }
    expect(await getFirstResult('cloud', { type: 'describe', sql: 'SELECT :a, @b, $c, ?' })).toMatchObject({
      result: { params: [{ name: 'a' }, { name: 'b' }, { name: 'c' }, { name: null }] },
    })
  })

  test('stored SQL is replaced', async () => {
    const reply = await pipeline(getUrl('cloud'), [
      storeSql(1, 'SELECT 1'),
      storeSql(1, 'SELECT 2'),
      executeRequest({ sql_id: 1 }),
      close,
    ])
    expect(reply.results[2]?.response?.result?.rows).toMatchObject([[{ value: '2' }]])
  })

  test('a cursor ends with null as its replication index', async () => {
    const readCursorLines = async (dialect: Dialect): Promise<string[]> => {
      await query(getUrl(dialect), 'CREATE TABLE IF NOT EXISTS written (a)')
      const body = JSON.stringify({ batch: { steps: [{ stmt: { sql: 'SELECT 1' } }] } })
      const response = await fetch(`${getUrl(dialect)}/v3/cursor`, { method: 'POST', body })
      return (await response.text()).trimEnd().split('\n')
    }
    const end = '{"type":"replication_index","replication_index":'
    expect((await readCursorLines('cloud')).at(-1)).toBe(`${end}null}`)
    expect((await readCursorLines('sqld')).at(-1)).toMatch(/"replication_index":\d+\}$/)
  })
})

test('sqld silently skips an incomplete statement after others; the other dialects reject it', async () => {
  for (const dialect of ['sqld', 'cloud', 'default'] as const) {
    await query(getUrl(dialect), 'CREATE TABLE script (a)')
    const sql = 'INSERT INTO script VALUES (1); UPDATE script SET; INSERT INTO script VALUES (2)'
    const reply = await pipeline(getUrl(dialect), [{ type: 'sequence', sql }, close])
    const isSkipped = dialect === 'sqld'
    expect([dialect, codes(reply)[0]]).toEqual([dialect, isSkipped ? 'ok' : 'SQL_PARSE_ERROR'])
    const rows = await query(getUrl(dialect), 'SELECT a FROM script')
    expect(rows).toEqual(isSkipped ? [['1'], ['2']] : [])
  }
})

test('rejects an unknown dialect, and a dialect for another back end', async () => {
  await expect(startLocalServer({ dialect: 'mysql' as never })).rejects.toThrow(
    "startLocalServer: dialect must be 'sqld' or 'cloud', not 'mysql'",
  )
  await expect(startLocalServer({ dialect: 'sqld', backend: 'sqld' })).rejects.toThrow('back end "embedded"')
})
