import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, inject, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Harness, sql } from './platform-harness.ts'

describe('the initial state of a database', () => {
  test('a copy has the rows of its source and then diverges; open transactions of the source continue', async () => {
    const harness = await Harness.forTest()
    const source = await harness.openDatabase('source', ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
    const { token } = source
    const begin = ['BEGIN', 'INSERT INTO t VALUES (2)']
    const transaction = await sql(source.host, token, begin, { keepOpen: true })
    const copy = await harness.openDatabase('copy', [], { seed: { type: 'database', value: 'source' } })
    expect((await sql(copy.host, copy.token, 'SELECT a FROM t')).rows).toEqual([['1']])
    // the source's tokens are not valid for the copy
    expect((await sql(copy.host, token, 'SELECT a FROM t')).status).toBe(401)
    const end = ['COMMIT', 'SELECT a FROM t']
    const committed = await sql(source.host, token, end, { baton: transaction.baton })
    expect(committed.rows).toEqual([['1'], ['2']])
    await sql(copy.host, copy.token, 'DELETE FROM t')
    expect((await sql(source.host, token, 'SELECT count(*) FROM t')).rows).toEqual([['2']])
    const { database } = await harness.requestOk('GET', 'databases/copy')
    expect(database.parent).toEqual({ id: source.id, name: 'source', branched_at: expect.any(String) })
    const children = await harness.requestOk('GET', `databases?parent=${source.id}`)
    expect(children.databases.map(({ Name }: { Name: string }) => Name)).toEqual(['copy'])
  })

  const openFromDump = async (harness: Harness, name: string, dump: string) =>
    await harness.openDatabase(name, [], { seed: { type: 'dump', url: await harness.uploadDump(dump) } })

  test('a database from a dump has all objects of the dump', async () => {
    const harness = await Harness.forTest()
    const dump = `PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t (a, b);
      INSERT INTO t VALUES (1, 'it''s; so'); INSERT INTO t VALUES (2, x'00ff');
      CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET b = 'new' WHERE a = new.a; END;\nCOMMIT;\n`
    const { host, token } = await openFromDump(harness, 'app', dump)
    const select = 'SELECT a, b FROM t WHERE a <> 2'
    expect((await sql(host, token, ['INSERT INTO t VALUES (3, 0)', select])).rows).toEqual([
      ['1', "it's; so"],
      ['3', 'new'],
    ])
    const bare = await openFromDump(harness, 'bare', 'create table d (x); insert into d values (7);')
    expect((await sql(bare.host, bare.token, 'SELECT x FROM d')).rows).toEqual([['7']])
  })

  test('a dump of sqlite3, with a BOM, CRLF, virtual tables, statistics and escapes, is a seed as it is a restore', async () => {
    const harness = await Harness.forTest()
    const dump = [
      'PRAGMA foreign_keys=OFF;',
      'BEGIN TRANSACTION;',
      'CREATE TABLE t (a INTEGER PRIMARY KEY, b);',
      "INSERT INTO t VALUES(1,unistr('two\\u000alines'));",
      'PRAGMA writable_schema=ON;',
      "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','f','f',0,'CREATE VIRTUAL TABLE f USING fts5(b, content=''t'', content_rowid=''a'')');",
      "CREATE TABLE IF NOT EXISTS 'f_data'(id INTEGER PRIMARY KEY, block BLOB);",
      "CREATE TABLE IF NOT EXISTS 'f_config'(k PRIMARY KEY, v) WITHOUT ROWID;",
      "INSERT INTO f_config VALUES('version',4);",
      'ANALYZE sqlite_schema;',
      "INSERT INTO sqlite_stat1 VALUES('t',NULL,'1');",
      'CREATE INDEX i ON t (b);',
      'PRAGMA writable_schema=OFF;',
      'COMMIT;',
      '',
    ]
    const { host, token } = await openFromDump(harness, 'app', `\ufeff${dump.join('\r\n')}`)
    expect((await sql(host, token, 'SELECT a, b FROM t')).rows).toEqual([['1', 'two\nlines']])
    const names = await sql(host, token, "SELECT name FROM sqlite_schema WHERE name IN ('f', 'i')")
    expect(names.rows).toEqual([['f'], ['i']])
  })

  test.each([
    [
      'Latin-1 text',
      Uint8Array.from(Buffer.from("create table t(a); insert into t values('caf\xe9');", 'latin1')),
      /not UTF-8/,
    ],
    ['UTF-16 text', Uint8Array.from(Buffer.from('\ufeffcreate table t(a);', 'utf16le')), /UTF-16/],
    [
      'a failing long statement',
      `insert into ${'missing'.repeat(100_000)} values (1);`,
      /^the dump.{0,400}$/,
    ],
    ['a truncated file', 'BEGIN; CREATE TABLE t(a);', /ends before its COMMIT/],
    ['only pragmas', 'PRAGMA foreign_keys=OFF;', /no statements/],
    ['nothing', '', /^the dump/],
    ['HTML', '<html><body>404</body></html>', /^the dump/],
    [
      'a failing statement',
      'CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1); INSERT INTO t VALUES (1);',
      /^the dump/,
    ],
    [
      'SQL that reads files',
      `CREATE TABLE t (a); INSERT INTO t VALUES (readfile('/etc/hostname'));`,
      /^the dump/,
    ],
  ] as const)(
    'a dump of %s is rejected with a short reason, and creates no database',
    async (_, dump, reason) => {
      const harness = await Harness.forTest()
      const request = { name: 'app', seed: { type: 'dump', url: await harness.uploadDump(dump) } }
      const { status, body: reply } = await harness.tryToCreate(request)
      expect([status, reply]).toEqual([400, { error: expect.stringMatching(reason) }])
      expect(await harness.statusOf('GET', 'databases/app')).toBe(404)
      // the name is available again, and a dump can be used only once
      expect((await harness.tryToCreate(request)).body.error).toBe('dump not found')
      await harness.createDatabase('app')
    },
  )

  test('a change to a schema database is applied to its child', async () => {
    const harness = await Harness.forTest()
    const parent = await harness.openDatabase('parent', [], { is_schema: true })
    const child = await harness.openDatabase('child', [], { schema: 'parent' })
    await sql(parent.host, parent.token, 'CREATE TABLE t (a)')
    expect((await sql(child.host, child.token, 'SELECT count(*) FROM t')).rows).toEqual([['0']])
    for (const body of [
      { name: 'x', group: 'default', seed: { type: 'database', name: 'parent' } },
      { name: 'x', group: 'default', schema: 'child' },
    ])
      expect(await harness.statusOf('POST', 'databases', { body })).toBe(400)
    const schemas = await harness.requestOk('GET', 'databases?type=schema')
    expect(schemas.databases).toMatchObject([{ Name: 'parent', is_schema: true }])
    const logical = await harness.requestOk('GET', 'databases?type=logical')
    expect(logical).toEqual(await harness.requestOk('GET', 'databases'))
    const headers = { authorization: `Bearer ${parent.token}` }
    const job = await fetch(`http://${parent.host}/v1/jobs/1`, { headers })
    expect(await job.json()).toMatchObject({ job_id: 1, status: 'RunSuccess', error: null })
    const { databases } = await harness.requestOk('GET', 'databases?schema=parent')
    expect(databases).toMatchObject([{ Name: 'child', schema: 'parent', is_schema: false }])
    const rejected = await harness.sendRequest('DELETE', 'databases/parent')
    expect(rejected.status).toBe(400)
    expect(rejected.body.error).toContain('are still refering to it')
    await harness.requestOk('DELETE', 'databases/child')
    await harness.requestOk('DELETE', 'databases/parent')
    // deleting a group removes both, regardless of the order in which they were created
    await harness.createGroup('team')
    await harness.createDatabase('parent', { group: 'team', is_schema: true })
    await harness.createDatabase('child', { group: 'team', schema: 'parent' })
    await harness.requestOk('DELETE', 'groups/team')
    expect((await harness.requestOk('GET', 'databases')).databases).toHaveLength(1)
  })
})

describe('configuration', () => {
  test('blocks, size, addresses and protection are enforced, and returned', async () => {
    const harness = await Harness.forTest()
    const { host, token } = await harness.openDatabase('app', 'CREATE TABLE t (a)', { size_limit: '256mb' })
    const change = (body: object) => harness.configure('app', body)
    const flags = { allow_attach: false, block_reads: false, block_writes: false, delete_protection: false }
    const settings = { size_limit: '256mb', ...flags, allowed_ips: [], allowed_aws_vpc_ids: [] }
    expect(await harness.requestOk('GET', 'databases/app/configuration')).toEqual(settings)
    // null leaves a setting unchanged, but clears lists
    const changed = await change({ block_writes: true, size_limit: null, delete_protection: null })
    expect(changed).toMatchObject({ size_limit: '256mb', block_writes: true, delete_protection: false })
    expect((await sql(host, token, 'INSERT INTO t VALUES (1)')).error).toBe('BLOCKED')
    expect((await sql(host, token, 'SELECT count(*) FROM t')).rows).toEqual([['0']])
    await change({ block_writes: false, block_reads: true })
    expect((await sql(host, token, 'SELECT count(*) FROM t')).error).toBe('BLOCKED')
    await change({ block_reads: false, size_limit: '100kb' })
    const fill = `INSERT INTO t SELECT hex(randomblob(500)) FROM (WITH RECURSIVE n(i) AS
      (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i FROM n)`
    expect((await sql(host, token, fill)).error).toBe('SQLITE_FULL')
    await change({ allowed_ips: ['10.0.0.0/8', '2001:db8::/32'] })
    expect((await sql(host, token, 'SELECT 1')).status).toBe(403)
    await change({ allowed_ips: ['127.0.0.0/8'] })
    expect((await sql(host, token, 'SELECT 1')).status).toBe(200)
    expect(await change({ allowed_ips: null, delete_protection: true })).toMatchObject({ allowed_ips: [] })
    expect((await harness.sendRequest('DELETE', 'databases/app')).body.error).toContain('delete_protection')
    expect(await harness.statusOf('DELETE', 'groups/default')).toBe(400)
    await change({ delete_protection: false })
    await harness.requestOk('DELETE', 'databases/app')
  })
})

test('a list is returned in pages of the requested size', async () => {
  const harness = await Harness.forTest()
  for (const name of ['a', 'b', 'c', 'd']) await harness.createDatabase(name)
  const names: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`
    const { databases, pagination } = await harness.requestOk('GET', `databases?limit=2${query}`)
    expect(databases.length).toBeLessThanOrEqual(2)
    names.push(...databases.map(({ Name }: { Name: string }) => Name))
    cursor = pagination.next
  }
  expect(names).toEqual(['default', 'a', 'b', 'c', 'd'])
})

test('the next page of a list begins after the last item, even if items were deleted in between', async () => {
  const harness = await Harness.forTest()
  for (const name of ['a', 'b', 'c', 'd']) await harness.createDatabase(name)
  const first = await harness.requestOk('GET', 'databases?limit=2')
  expect(first.databases.map(({ Name }: { Name: string }) => Name)).toEqual(['default', 'a'])
  for (const name of ['default', 'a']) await harness.requestOk('DELETE', `databases/${name}`)
  const second = await harness.requestOk('GET', `databases?limit=2&cursor=${first.pagination.next}`)
  expect(second.databases.map(({ Name }: { Name: string }) => Name)).toEqual(['b', 'c'])
})

test('a server whose group and database `default` were deleted starts again', async () => {
  const directory = createTemporaryDirectory()
  const harness = await Harness.start({}, directory)
  await harness.requestOk('DELETE', 'groups/default')
  await harness[Symbol.asyncDispose]()
  await using restarted = await Harness.start({}, directory)
  expect((await restarted.requestOk('GET', 'databases')).databases).toEqual([])
})

test('a new database responds with 404 until the configured delay has passed', async () => {
  const harness = await Harness.forTest({ readyDelayMs: 700, takenNameStatus: 400 })
  const { host, token } = await harness.openDatabase('app')
  expect((await sql(host, token, 'SELECT 1')).status).toBe(404)
  await sleep(800)
  expect((await sql(host, token, 'SELECT 1')).status).toBe(200)
  const duplicate = await harness.tryToCreate({ name: 'app' })
  expect(duplicate).toEqual({ status: 400, body: { error: 'database with name app already exists' } })
})

test('a database created while the clock was ahead responds after the clock is set back, and after a restart', async () => {
  const directory = createTemporaryDirectory()
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => new Date().getTime() + 7_200_000)
  {
    await using harness = await Harness.start({}, directory)
    const { host, token } = await harness.openDatabase('app', 'CREATE TABLE t (a)')
    clock.mockRestore()
    expect((await sql(host, token, 'SELECT * FROM t')).status).toBe(200)
  }
  await using restarted = await Harness.start({}, directory)
  const { Hostname: host } = (await restarted.requestOk('GET', 'databases/app')).database
  expect((await sql(host, await restarted.tokenFor('app'), 'SELECT * FROM t')).status).toBe(200)
})

test('after a deletion, the name can be reused, and no data of the old database is visible', async () => {
  const harness = await Harness.forTest()
  const original = await harness.openDatabase('app', ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  const { token } = original
  await harness.requestOk('DELETE', 'databases/app')
  expect((await sql(original.host, token, 'SELECT a FROM t')).status).toBe(404)
  const replacement = await harness.createDatabase('app')
  expect(replacement.id).not.toBe(original.id)
  expect((await sql(replacement.host, token, 'SELECT 1')).status).toBe(401)
  const newToken = await harness.tokenFor('app')
  const { rows } = await sql(replacement.host, newToken, 'SELECT count(*) FROM sqlite_schema')
  expect(rows).toEqual([['0']])
})

test('reports the size of a database soon after its first write, even if the size was requested before', async () => {
  const harness = await Harness.forTest()
  await harness.openDatabase('app', ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  const getSize = async () =>
    (await harness.requestOk('GET', 'usage')).organization.usage.storage_bytes as number
  await expect.poll(getSize, { timeout: 60_000 }).toBeGreaterThanOrEqual(8_192)
})

test('only a database that accepts requests is healthy; the bare URL reports on the server', async () => {
  const harness = await Harness.forTest()
  const { host } = await harness.createDatabase('app')
  const getHealth = async (url: string) => {
    const response = await fetch(`${url}/health`)
    return [response.status, await response.text()]
  }
  expect(await getHealth(`http://${host}`)).toEqual([200, ''])
  expect(await getHealth(`${harness.server.url}/nowhere`)).toEqual([404, ''])
  await harness.platform.archiveGroup('default')
  expect(await getHealth(`http://${host}`)).toEqual([503, ''])
  await harness.requestOk('POST', 'groups/default/unarchive')
  expect(await getHealth(`http://${host}`)).toEqual([200, ''])
  await harness.requestOk('DELETE', 'databases/app')
  expect(await getHealth(`http://${host}`)).toEqual([404, ''])
  await harness.server.deleteDatabase('default')
  expect(await getHealth(harness.server.url)).toEqual([200, ''])
})

test('a protected database cannot be deleted, not even by the program that runs the server', async () => {
  const harness = await Harness.forTest()
  const { host } = await harness.createDatabase('app')
  const path = 'databases/app'
  await harness.configure('app', { delete_protection: true })
  await expect(harness.server.deleteDatabase('app')).rejects.toThrow('is protected from deletion')
  expect(await harness.statusOf('DELETE', path)).toBe(400)
  expect((await sql(host, await harness.tokenFor('app'), 'SELECT 1')).rows).toEqual([['1']])
  await harness.configure('app', { delete_protection: false })
  await harness.server.deleteDatabase('app')
  expect(await harness.statusOf('GET', path)).toBe(404)
})

test('times reported by the server are passed on unchanged', async () => {
  const { server } = await Harness.forTest()
  const response = await fetch(`${server.url}/v2/pipeline`, {
    method: 'POST',
    headers: { authorization: `Bearer ${await server.createToken('default')}` },
    body: '{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}}]}',
  })
  await response.text()
  const bytes = Buffer.from(response.headers.get('server-timing') ?? '', 'latin1')
  // if it were encoded twice, its micro sign would take two more bytes
  expect(bytes.toString('utf8')).toMatch(/^(?:[\x20-\x7e]|µ)*$/)
  if (inject('target') === 'sqld') expect(bytes.toString('utf8')).toContain('libsql_query_exec;dur=')
})

test('rows read and written are counted, including those before a restart and of deleted databases', async () => {
  const directory = createTemporaryDirectory()
  const usageOf = async (harness: Harness) => (await harness.requestOk('GET', 'databases/app/usage')).database
  const totalOf = async (harness: Harness) => (await harness.requestOk('GET', 'usage')).organization.usage
  const runStatements = async (harness: Harness, statements: string[]): Promise<void> => {
    const { database } = await harness.requestOk('GET', 'databases/app')
    expect((await sql(database.Hostname, await harness.tokenFor('app'), statements)).error).toBeNull()
  }
  let usageBeforeRestart: { rows_read: number; rows_written: number }
  {
    await using harness = await Harness.start({}, directory)
    await harness.createDatabase('app')
    const statements = ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1), (2), (3)', 'SELECT * FROM t']
    await runStatements(harness, statements)
    const { total, usage, uuid, instances } = await usageOf(harness)
    expect([total, instances]).toEqual([usage, [{ uuid, usage }]])
    usageBeforeRestart = total
    expect(usageBeforeRestart.rows_read).toBeGreaterThanOrEqual(3)
    expect(usageBeforeRestart.rows_written).toBeGreaterThanOrEqual(3)
    const { top_queries: queries } = await harness.requestOk('GET', 'databases/app/stats')
    expect(queries).toContainEqual({ query: 'SELECT * FROM t', rows_read: 3, rows_written: 0 })
  }
  await using harness = await Harness.start({}, directory)
  const storage = { storage_bytes: expect.any(Number) }
  expect((await usageOf(harness)).total).toMatchObject({ ...usageBeforeRestart, ...storage })
  for (const rowsRead of [3, 6]) {
    await runStatements(harness, ['SELECT * FROM t'])
    expect((await usageOf(harness)).total.rows_read).toBe(usageBeforeRestart.rows_read + rowsRead)
  }
  const january = 'from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z'
  const past = await harness.requestOk('GET', `databases/app/usage?${january}`)
  expect(past.database.total).toMatchObject({ rows_read: 0, rows_written: 0 })
  const total = await totalOf(harness)
  await harness.requestOk('DELETE', 'databases/app')
  expect(await totalOf(harness)).toMatchObject({ rows_read: total.rows_read, databases: 1 })
})
