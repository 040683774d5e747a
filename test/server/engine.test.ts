import { readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { describe, expect, test } from 'vitest'
import { closeOnError } from '../support/close-on-error.ts'
import { startWith } from './start-with.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const CREATE_VECTORS = [
  'CREATE TABLE n (a INTEGER PRIMARY KEY, e F32_BLOB(2))',
  "INSERT INTO n VALUES (1, vector32('[1,0]')), (2, vector32('[0,1]'))",
  'CREATE INDEX n_vector ON n (libsql_vector_idx(e))',
]
const SELECT_NEAREST = "SELECT id FROM vector_top_k('n_vector', vector32('[1,0]'), 1)"

/** Starts a server with a database of vectors, and creates a read-only token for it. */
async function startWithReader() {
  const server = await startLocalServer({ auth: true })
  return await closeOnError(server, async () => {
    const { url, authToken } = await server.createDatabase('app')
    const ownerToken = authToken as string
    for (const sql of CREATE_VECTORS) await query(url, sql, { token: ownerToken })
    const readerToken = await server.createToken('app', { authorization: 'read-only' })
    return { server, url, ownerToken, readerToken }
  })
}

describe('SQL cannot access anything but its database', () => {
  test.each([
    "SELECT writefile('FILE', 'pwned')",
    "SELECT \"writefile\"('FILE', 'pwned')",
    "SELECT readfile('/etc/passwd')",
    "SELECT load_extension('libm.so.6')",
    "SELECT edit('x')",
    "SELECT * FROM fsdir('/')",
    "SELECT * FROM main.fsdir WHERE path = '/'",
    "SELECT * FROM zipfile('FILE')",
    "CREATE VIRTUAL TABLE z USING zipfile('FILE')",
    "CREATE VIRTUAL TABLE x USING csv(filename='/etc/passwd')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('simple', x'4141414141414141')",
    "ATTACH 'FILE' AS a",
    'ATTACH "FILE" AS a',
    "VACUUM INTO 'FILE'",
    "PRAGMA temp_store_directory = '/tmp'",
    'PRAGMA writable_schema = 1',
    "INSERT INTO t VALUES (1) RETURNING writefile('FILE', 'pwned')",
    "CREATE TABLE g (a, b AS (readfile('/etc/passwd')))",
  ])('%s', async (sql) => {
    await using server = await startLocalServer()
    const before = await readdir(tmpdir())
    const file = join(tmpdir(), 'baton-pwned')
    await query(server.url, 'CREATE TABLE t (a)')
    const reply = await pipeline(server.url, [execute(sql.replaceAll('FILE', file)), close])
    expect(reply.status === 200 ? reply.results[0]?.type : 'refused').toMatch(/^(?:error|refused)$/)
    expect(before).not.toContain('baton-pwned')
    expect(await readdir(tmpdir())).not.toContain('baton-pwned')
  })

  test('full-text tables, views, triggers and default values cannot access files either', async () => {
    await using server = await startLocalServer()
    const reply = await pipeline(server.url, [
      execute("CREATE VIRTUAL TABLE f USING fts5(name, content='fsdir')"),
      execute("INSERT INTO f(f) VALUES ('rebuild')"),
      execute("CREATE VIEW v AS SELECT readfile('/etc/passwd')"),
      execute('SELECT * FROM v'),
      execute('CREATE TABLE t (a)'),
      execute("CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT writefile('/tmp/baton-pwned', new.a); END"),
      execute("INSERT INTO t VALUES ('pwned')"),
      execute("CREATE TABLE d (a, b DEFAULT (writefile('/tmp/baton-pwned', 'pwned')))"),
      execute('INSERT INTO d (a) VALUES (1)'),
      close,
    ])
    const [, rebuild, , view, , , insert, , defaultValue] = codes(reply)
    expect([rebuild, view, insert, defaultValue]).not.toContain('ok')
    await expect(readFile('/tmp/baton-pwned')).rejects.toThrow('ENOENT')
  })
})

describe('compiling has no effect', () => {
  test('a read-only token cannot drop a vector index by describing, explaining or executing DROP INDEX', async () => {
    const { server, url, ownerToken, readerToken } = await startWithReader()
    await using _ = server
    for (const sql of [
      'DROP INDEX n_vector',
      'DROP TABLE n',
      '\ufeffDROP INDEX n_vector',
      'EXPLAIN DROP INDEX n_vector',
      'EXPLAIN \ufeffDROP INDEX n_vector',
    ]) {
      await pipeline(url, [{ type: 'describe', sql }], { token: readerToken })
      await pipeline(url, [execute(sql)], { token: readerToken })
      await pipeline(url, [{ type: 'sequence', sql }], { token: readerToken })
      expect(await query(url, SELECT_NEAREST, { token: readerToken })).toEqual([['1']])
    }
    expect(await query(url, 'PRAGMA integrity_check', { token: ownerToken })).toEqual([['ok']])
  })

  test('describing and explaining a schema change with every permission changes nothing', async () => {
    await using server = await startWith(...CREATE_VECTORS)
    const reply = await pipeline(server.url, [
      { type: 'describe', sql: 'DROP INDEX n_vector' },
      { type: 'describe', sql: 'CREATE INDEX other ON n (libsql_vector_idx(e))' },
      execute('EXPLAIN DROP INDEX n_vector'),
      execute('EXPLAIN CREATE INDEX other ON n (libsql_vector_idx(e))'),
      { type: 'get_autocommit' },
      close,
    ])
    expect(codes(reply)).toEqual(['ok', 'ok', 'ok', 'ok', 'ok', 'ok'])
    expect(reply.results[4]?.response?.is_autocommit).toBe(true)
    expect(await query(server.url, SELECT_NEAREST)).toEqual([['1']])
    expect(await query(server.url, "SELECT name FROM sqlite_schema WHERE name LIKE 'other%'")).toEqual([])
    // the write lock is free
    expect(await query(server.url, "INSERT INTO n VALUES (3, vector32('[1,1]')) RETURNING a")).toEqual([
      ['3'],
    ])
  })

  test('a step whose condition is false is not compiled', async () => {
    await using server = await startWith(...CREATE_VECTORS)
    const steps = [
      { stmt: { sql: 'SELECT 1' } },
      { stmt: { sql: 'DROP INDEX n_vector' }, condition: { type: 'error', step: 0 } },
    ]
    await pipeline(server.url, [{ type: 'batch', batch: { steps } }, close])
    expect(await query(server.url, SELECT_NEAREST)).toEqual([['1']])
  })

  test('a vector index finds rows that were inserted before it was created', async () => {
    await using server = await startWith(...CREATE_VECTORS)
    expect(await query(server.url, SELECT_NEAREST.replace(', 1)', ', 2)'))).toEqual([['1'], ['2']])
  })
})

describe('statements are executed as written', () => {
  test('RETURNING evaluates an expression once per row', async () => {
    await using server = await startWith('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    const rows = await query(
      server.url,
      "INSERT INTO t (b) VALUES ('a' || char(0) || 'b'), (1.0), (x'00') RETURNING b, hex(randomblob(8)), last_insert_rowid()",
    )
    expect(new Set(rows.map((row) => row[1])).size).toBe(3)
    expect(rows[0]?.[0]).toBe('a\0b')
  })

  test("another stream's ALTER TABLE is visible in `select *`", async () => {
    await using server = await startWith('CREATE TABLE t (a, b)', 'INSERT INTO t VALUES (1, 2)')
    const stream = await pipeline(server.url, [execute('SELECT * FROM t')])
    await query(server.url, 'ALTER TABLE t ADD COLUMN c DEFAULT 3')
    const after = await pipeline(server.url, [execute('SELECT * FROM t'), close], { baton: stream.baton })
    expect(after.results[0]?.response?.result?.rows[0]).toHaveLength(3)
    expect(after.results[0]?.response?.result?.cols).toHaveLength(3)
  })

  test('EXPLAIN leaves no statement open: later statements are committed, and the table can be dropped', async () => {
    await using server = await startWith('CREATE TABLE t (a)')
    const stream = await pipeline(server.url, [
      execute('EXPLAIN QUERY PLAN DELETE FROM t'),
      execute('INSERT INTO t VALUES (1)'),
      { type: 'get_autocommit' },
    ])
    expect(stream.results[2]?.response?.is_autocommit).toBe(true)
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([['1']])
    expect(
      codes(await pipeline(server.url, [execute('DROP TABLE t'), close], { baton: stream.baton })),
    ).toEqual(['ok', 'ok'])
  })
})

test('a write hidden behind a character that a scanner treats as a letter is rejected with a read-only token', async () => {
  const { server, url, readerToken, ownerToken } = await startWithReader()
  await using _ = server
  for (const blank of ['\ufeff', '\u00a0', '\u000b', '\u2028', '\u3000', '/**/', '\f']) {
    const sql = `WITH x(a) AS (SELECT 7)${blank}INSERT INTO n (a) SELECT a FROM x`
    const { status, results } = await pipeline(url, [execute(sql), close], { token: readerToken })
    expect([status === 403, results[0]?.type === 'error']).toContain(true)
  }
  expect(await query(url, 'SELECT count(*) FROM n', { token: ownerToken })).toEqual([['2']])
})

test.each([
  "SELECT sha3_query('DROP INDEX n_vector')",
  "SELECT sha3_query('DELETE FROM n')",
  'SELECT optimize(f) FROM f',
  'SELECT * FROM pragma_optimize',
  "SELECT * FROM pragma_user_version('7')",
  "SELECT * FROM pragma_wal_checkpoint('truncate')",
  "SELECT vector_top_k('n_vector', 1, 1)",
])('statements that look like reads change nothing: %s', async (sql) => {
  const { server, url, ownerToken, readerToken } = await startWithReader()
  await using _ = server
  await query(url, 'CREATE VIRTUAL TABLE f USING fts4(a)', { token: ownerToken })
  await query(url, "INSERT INTO f VALUES ('x')", { token: ownerToken })
  const state =
    'SELECT count(*), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema) FROM n'
  const before = await query(url, state, { token: ownerToken })
  await pipeline(url, [{ type: 'describe', sql }, execute(sql), close], { token: readerToken })
  expect(await query(url, state, { token: ownerToken })).toEqual(before)
  expect(await query(url, SELECT_NEAREST, { token: readerToken })).toEqual([['1']])
})

test('an R-tree can be read with a read-only token', async () => {
  await using server = await startLocalServer({ auth: true })
  const { url, authToken } = await server.createDatabase('app')
  const token = authToken as string
  await query(url, 'CREATE VIRTUAL TABLE r USING rtree(id, x0, x1)', { token })
  await query(url, 'INSERT INTO r VALUES (1, 0, 1)', { token })
  const readerToken = await server.createToken('app', { authorization: 'read-only' })
  expect(await query(url, 'SELECT id FROM r', { token: readerToken })).toEqual([['1']])
  const shadow = await pipeline(url, [execute('DELETE FROM r_node'), close], { token: readerToken })
  expect(shadow.status).toBe(403)
})

test('a setting changed by EXPLAIN of a pragma does not affect the next client', async () => {
  await using server = await startWith(
    'CREATE TABLE p (id INTEGER PRIMARY KEY)',
    'CREATE TABLE c (p REFERENCES p)',
  )
  for (const explain of ['EXPLAIN', 'EXPLAIN QUERY PLAN']) {
    for (let i = 0; i < 5; i += 1) await query(server.url, `${explain} PRAGMA foreign_keys = 0`)
    const reply = await pipeline(server.url, [execute('INSERT INTO c VALUES (7)'), close])
    expect(codes(reply)).toEqual(['SQLITE_CONSTRAINT', 'ok'])
  }
})

test('EXPLAIN of a schema change in a transaction with a read-only token is rejected', async () => {
  const { server, url, readerToken } = await startWithReader()
  await using _ = server
  const transaction = await pipeline(url, [execute('BEGIN'), execute('SAVEPOINT baton_undone')], {
    token: readerToken,
  })
  const rejectedReply = await pipeline(url, [execute('EXPLAIN DROP TABLE n')], {
    token: readerToken,
    baton: transaction.baton,
  })
  expect([rejectedReply.status, rejectedReply.text]).toEqual([
    403,
    expect.stringContaining('Write permission'),
  ])
})

test('the most complex pattern that LIKE accepts does not end other transactions', async () => {
  await using server = await startLocalServer()
  const transaction = await pipeline(server.url, [execute('BEGIN'), execute('SELECT 1')])
  const like = `SELECT '${'a'.repeat(24_999)}' LIKE '${'%a'.repeat(24_999)}b'`
  expect(codes(await pipeline(server.url, [execute(like), close]))).toEqual(['ok', 'ok'])
  const commit = await pipeline(server.url, [execute('COMMIT'), close], { baton: transaction.baton })
  expect(codes(commit)).toEqual(['ok', 'ok'])
})

test('a step that fills the response leaves no room for the next step', async () => {
  await using server = await startWith(
    'CREATE TABLE big (a)',
    'INSERT INTO big SELECT hex(zeroblob(2400000)) FROM generate_series(1, 4)',
  )
  const tooLarge = { code: 'RESPONSE_TOO_LARGE', message: 'Response is too large' }
  // the rows alone would still fit, but not with the JSON around them
  for (const padding of [19_800, 19_850, 19_900]) {
    const largeSelect = `SELECT hex(zeroblob(2495000)) UNION ALL SELECT hex(zeroblob(2495000)) UNION ALL SELECT printf('%${padding}d', 1)`
    const steps = [{ stmt: { sql: largeSelect } }, { stmt: { sql: 'SELECT a FROM big' } }]
    const reply = await pipeline(server.url, [{ type: 'batch', batch: { steps } }, close])
    expect(reply.results[0]?.error).toEqual(tooLarge)
  }
})

test('the rest of a long batch is not executed after its client has disconnected', async () => {
  await using server = await startWith('CREATE TABLE t (a)')
  const controller = new AbortController()
  const sql = 'INSERT INTO t SELECT count(*) FROM generate_series(1, 100000)'
  const steps = Array.from({ length: 5_000 }, () => ({ stmt: { sql } }))
  const reply = pipeline(server.url, [{ type: 'batch', batch: { steps } }, close], {
    signal: controller.signal,
  })
  reply.catch(() => {})
  while ((await query(server.url, 'SELECT 1 FROM t LIMIT 1')).length === 0);
  controller.abort()
  await expect(reply).rejects.toThrow()
  await query(server.url, 'INSERT INTO t VALUES (-1)')
  const count = async (): Promise<number> =>
    Number((await query(server.url, 'SELECT count(*) FROM t'))[0]?.[0])
  const firstCount = await count()
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect([firstCount < 4_000, await count()]).toEqual([true, firstCount])
})

test('a statement that is repeated in a transaction returns the same results as if it were compiled each time', async () => {
  const insert = 'INSERT INTO t VALUES (?, ?)'
  const program: [sql: string, ...args: unknown[]][] = [
    ['CREATE TABLE t (a INTEGER PRIMARY KEY, b)'],
    ['BEGIN IMMEDIATE'],
    [insert, 1, 'first'],
    [insert, 2, null],
    [insert, 2, 'taken'],
    [insert, 3, 'after an error'],
    [insert, 4],
    ['SELECT * FROM t'],
    ['SELECT * FROM t'],
    ['ALTER TABLE t ADD COLUMN c DEFAULT 7'],
    ['SELECT * FROM t'],
    ['UPDATE t SET b = b || ? WHERE a < 3 RETURNING *', '!'],
    ['UPDATE t SET b = b || ? WHERE a < 3 RETURNING *', '?'],
    ['SELECT changes(), total_changes(), last_insert_rowid()'],
    ['SELECT changes(), total_changes(), last_insert_rowid()'],
    ['ROLLBACK'],
    ['SELECT * FROM t'],
    ['SELECT * FROM t'],
    ['BEGIN'],
    [insert, 5, 'in another transaction'],
    [insert, 6, 'in another transaction'],
    ['COMMIT'],
    ['SELECT * FROM t'],
  ]
  const run = async (isDistinct: boolean): Promise<unknown[]> => {
    await using server = await startLocalServer()
    const requests = program.map(([sql, ...args], index) =>
      execute(isDistinct ? `/* ${index} */ ${sql}` : sql, ...args),
    )
    const { results } = await pipeline(server.url, [...requests, close])
    return JSON.parse(
      JSON.stringify(results).replaceAll(/"query_duration_ms":[\d.]+/g, '"query_duration_ms":0'),
    )
  }
  const repeated = await run(false)
  expect(repeated).toHaveLength(program.length + 1)
  expect(repeated).toEqual(await run(true))
})
