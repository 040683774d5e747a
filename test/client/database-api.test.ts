import type { ChangeEvent, Client, ClientConfig, Dump, JobStatus } from '@batonsql/core'
import {
  createClient,
  describe as describeStatement,
  dump,
  executeMultiple,
  jobs,
  listen,
  RestoreError,
  restore,
} from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { openRestartableServer, type RestartableServer } from '../support/restartable-server.ts'
import { openTestServer, type TestDatabase } from '../support/test-server.ts'

// The database API except pipelines and cursors, on each server, and from one server to another.

const server = await openTestServer()
const clients: Client[] = []
afterAll(() => Promise.all(clients.map((db) => db.close())))
const open = (config: ClientConfig): Client => {
  const db = createClient(config)
  clients.push(db)
  return db
}
const embedded = await startLocalServer()
afterAll(() => embedded.close())
let count = 0
/** Creates an empty database on the server under test or on an embedded one, and opens a client for it. */
const openEmpty = {
  'the server under test': async () => open((await server.createDatabase()).config),
  'an embedded server': async () => open(await embedded.createDatabase(`copy-${(count += 1)}`)),
}
const openTested = openEmpty['the server under test']
type ServerKind = keyof typeof openEmpty

const SAMPLE_SCRIPT = `
create table "order" (a integer primary key, "it's ä" text, c blob, d real, e numeric);
insert into "order" values
  (1, 'it''s; "x"', x'00ff27', 1.5, 7), (-9223372036854775808, '', x'', -0.25, null),
  (9223372036854775807, 'line' || char(10) || 'break;' || char(13), zeroblob(3), 1e300, '12.5'),
  (9007199254740993, 'Ünï 😀 \\n %s', null, 5e-324, 1e15),
  (5, 'nul' || char(0) || 'x', null, 9e999, 1), (6, 'inf', x'', -9e999, 2);
create table early (p references late (k)); create table late (k primary key);
insert into late values (1); insert into early values (1);
create table auto (y integer primary key autoincrement, x unique, g generated always as (x || 'g') stored);
insert into auto (x) values ('a'), ('b'); delete from auto where x = 'b';
create table child (p references auto (y) deferrable initially deferred, n);
insert into child values (1, 1);
create table without (k text, v, primary key (k)) without rowid;
insert into without values ('k', 1), ('k2', null);
create table log (m);
create trigger "on auto" after insert on auto when new.x <> 'end' begin
  insert into log values (new.x || ';'); select 'a;b'; -- end;
end;
create view seen as select m as ";" from log;
create index by_text on "order" ("it's ä" collate nocase) where a > 0;
create virtual table words using fts5(body);
insert into words values ('hello world'), ('other; text');
create table words_of_users (w); insert into words_of_users values ('mine');
create table vectors (id integer primary key, e F32_BLOB(2));
create index nearest on vectors (libsql_vector_idx(e));
insert into vectors values (1, vector32('[1,2]')), (2, vector32('[3,4]'));
create table empty_one (a, b default 'x;y' check (b <> ';'));`

/** Reads the contents of a database: its schema, and each value with its type. */
async function readContents(db: Client): Promise<unknown> {
  const schema = await db.execute<{ name: string; type: string; sql: string }>(
    "select type, name, sql from sqlite_schema where name not like 'libsql%' and sql is not null order by type, name",
  )
  const tables = schema.rows.filter(({ type }) => type === 'table').map(({ name }) => name)
  const queries = tables.map((name) => `select * from "${name}" order by 1`)
  const rowMode = { rowMode: 'array' } as const
  // some tables have only one column
  const rows = await db
    .batch(
      queries.map((query) => `${query}, 2`),
      rowMode,
    )
    .catch(async () => {
      const results = []
      for (const query of queries) results.push(await db.execute(query, [], rowMode))
      return results
    })
  return {
    schema: schema.rows.map(({ type, name, sql }) => [type, name, sql]),
    rows: rows.map((result) => result.rows),
  }
}
const readText = (source: Dump): Promise<string> => new Response(source.bytes()).text()
const collectStatements = async (source: Dump): Promise<string[]> => {
  const statements: string[] = []
  for await (const statement of source) statements.push(statement)
  return statements
}

describe.each<[ServerKind, ServerKind]>([
  ['the server under test', 'the server under test'],
  ['the server under test', 'an embedded server'],
  ['an embedded server', 'the server under test'],
])('from %s to %s', (from, to) => {
  let source: Client
  beforeAll(async () => {
    source = await openEmpty[from]()
    await executeMultiple(source, SAMPLE_SCRIPT)
  })

  test('a restored database equals the original, and its dump is the same', async () => {
    for (const preserveRowIds of [false, true]) {
      const target = await openEmpty[to]()
      const progressCounts: number[] = []
      const { statements } = await restore(target, dump(source, { preserveRowIds }), {
        onProgress: (progress) => progressCounts.push(progress.statements),
      })
      expect(progressCounts).toEqual([statements])
      expect(await readContents(target)).toEqual(await readContents(source))
      const search = "select body from words where words match 'hello'"
      expect((await target.execute(search)).rows).toEqual([{ body: 'hello world' }])
      await target.execute("insert into words (words) values ('integrity-check')")
      const nearest = "select id from vector_top_k('nearest', vector32('[3,4]'), 1)"
      expect((await target.execute(nearest)).rows).toEqual([{ id: 2 }])
      // new rows get the same ids as in the source
      const { lastInsertRowid } = await target.execute("insert into auto (x) values ('end')")
      expect(lastInsertRowid).toBe(3n)
      if (from === to) {
        const copy = await openEmpty[to]()
        await restore(copy, (await collectStatements(dump(source))).join(''))
        expect(await readText(dump(copy))).toBe(await readText(dump(source)))
      }
    }
  })

  test('applies each batch of a dump once', async () => {
    await source.batch([
      'create table if not exists large (n integer primary key, t)',
      'delete from large',
      `insert into large with recursive c(i) as (select 1 union all select i + 1 from c where i < 600)
       select i, hex(zeroblob(2000)) || i from c`,
      'insert into large values (0, hex(zeroblob(800000)))',
    ])
    const target = await openEmpty[to]()
    const progressCounts: number[] = []
    const { statements } = await restore(target, dump(source), {
      onProgress: (progress) => progressCounts.push(progress.statements),
    })
    expect(progressCounts.length).toBeGreaterThan(3)
    expect(progressCounts.at(-1)).toBe(statements)
    expect(await readContents(target)).toEqual(await readContents(source))
    await source.execute('drop table large')
  })
})

describe('restore', () => {
  let database: TestDatabase
  let db: Client
  const createScript = (rows: number, textLength: number): string[] => [
    'PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE IF NOT EXISTS t (n integer primary key, t);\n',
    ...Array.from({ length: rows }, (_, n) => `INSERT INTO t VALUES(${n},'${'x'.repeat(textLength)}');\n`),
    'COMMIT;\n',
  ]
  const ROW_COUNT = 600
  /** A script of 3 MB, which is sent in four batches. */
  const LARGE_SCRIPT = createScript(ROW_COUNT, 5_000)
  const createEmptyDatabase = async (): Promise<void> => {
    database = await server.createDatabase()
    db = open(database.config)
  }
  const readAll = async (sql: string, on = db): Promise<unknown[]> =>
    (await on.execute(sql, [], { rowMode: 'array' })).rows.flat()
  const listTables = (on = db): Promise<unknown[]> =>
    readAll(
      "select name from sqlite_schema where type = 'table' and name <> 'libsql_vector_meta_shadow' order by 1",
      on,
    )
  /** Checks that all rows of the script, or of a number of rows, were inserted once. */
  const expectAllRows = async (rows = ROW_COUNT, on = db): Promise<void> =>
    expect(await readAll('select count(*), sum(n) from t', on)).toEqual([rows, (rows * (rows - 1)) / 2])

  /** Creates a client that loses the responses or the requests of the given batches, or whose batches a proxy rejects. */
  const createLossyClient = (
    losses: Readonly<Record<number, 'response' | 'request' | 'rejected'>>,
    intMode: ClientConfig['intMode'] = 'auto',
  ): Client => {
    let batches = 0
    return open({
      ...database.config,
      maxRetries: 0,
      intMode,
      fetch: async (url, init) => {
        const loss = init.body?.includes('"batch"') ? losses[(batches += 1)] : undefined
        if (loss === 'request') throw new TypeError('the request was lost')
        if (loss === 'rejected') return new Response('no such token', { status: 401 })
        const response = await fetch(url, init)
        if (loss === undefined) return response
        await response.text()
        throw new TypeError('the response was lost')
      },
    })
  }

  test.each(['auto', 'number', 'bigint', 'string'] as const)(
    'the number of applied statements is read correctly with intMode %s',
    async (intMode) => {
      await createEmptyDatabase()
      const { statements } = await restore(createLossyClient({ 2: 'response' }, intMode), LARGE_SCRIPT)
      expect(statements).toBe(LARGE_SCRIPT.length + 2)
      await expectAllRows()
      await createEmptyDatabase()
      const losses = { 2: 'request', 3: 'request', 4: 'request', 5: 'request', 6: 'request' } as const
      const losingClient = createLossyClient(losses, intMode)
      await expect(restore(losingClient, LARGE_SCRIPT)).rejects.toMatchObject({ code: 'RESTORE_STOPPED' })
      await restore(open({ ...database.config, intMode }), LARGE_SCRIPT, { resume: true })
      await expectAllRows()
    },
  )

  test('a restore in progress when the client is closed finishes', async () => {
    await createEmptyDatabase()
    const client = open(database.config)
    let closed: Promise<void> | undefined
    const { statements } = await restore(client, LARGE_SCRIPT, {
      onProgress: () => {
        closed ??= client.close({ drainMs: 60_000 })
      },
    })
    expect(statements).toBe(LARGE_SCRIPT.length + 2)
    await closed
    await expectAllRows()
    await expect(restore(client, LARGE_SCRIPT)).rejects.toThrow('the client is closed')
  })

  test('each batch is applied once, regardless of which request or response is lost', async () => {
    await createEmptyDatabase()
    const losses = { 1: 'response', 2: 'request', 3: 'response', 5: 'request', 6: 'response' } as const
    const { statements } = await restore(createLossyClient(losses), LARGE_SCRIPT)
    expect(statements).toBe(LARGE_SCRIPT.length + 2)
    await expectAllRows()
    expect(await listTables()).toEqual(['t'])
  })

  test('a script of 12,000 short statements is one request, and atomic', async () => {
    await createEmptyDatabase()
    const shortScript = createScript(12_000, 0)
    expect(shortScript.join('').length).toBeGreaterThan(300_000)
    const failing = restore(db, shortScript.with(12_000, 'INSERT INTO missing VALUES(1);\n'))
    await expect(failing).rejects.toMatchObject({ applied: 0 })
    expect(await listTables()).toEqual([])
    const before = database.requestCount()
    await restore(db, shortScript)
    // the existing objects are read first
    expect(database.requestCount() - before).toBeLessThanOrEqual(2)
    await expectAllRows(12_000)
  })

  test('an interrupted restore reports its progress, and resumes from there', async () => {
    await createEmptyDatabase()
    const stopped = restore(db, LARGE_SCRIPT.with(450, "INSERT INTO missing VALUES('x');\n"))
    await expect(stopped).rejects.toMatchObject({
      name: 'RestoreError',
      code: 'RESTORE_STOPPED',
      outcome: 'not_applied',
      cause: {
        name: 'SqlError',
        statementIndex: 452,
        message: expect.stringMatching(/^statement 453: .*no such table/),
      },
    })
    const { applied } = (await stopped.catch((error: unknown) => error)) as RestoreError
    expect(applied).toBeGreaterThan(200)
    expect(applied).toBeLessThan(452)
    expect(await listTables()).toEqual(['baton_restore_progress', 't'])
    const another = restore(db, LARGE_SCRIPT)
    await expect(another).rejects.toThrow(`another restore has applied ${applied} statements`)
    const progressCounts: number[] = []
    await restore(db, LARGE_SCRIPT, {
      resume: true,
      onProgress: ({ statements }) => progressCounts.push(statements),
    })
    expect(progressCounts[0]).toBeGreaterThan(applied)
    await expectAllRows()
    expect(await listTables()).toEqual(['t'])
  })

  test('the outcome is unknown if a batch whose response was lost is then rejected', async () => {
    await createEmptyDatabase()
    const restoring = restore(createLossyClient({ 2: 'request', 3: 'rejected' }), LARGE_SCRIPT)
    const cause = { name: 'HttpError', outcome: 'not_applied' }
    await expect(restoring).rejects.toMatchObject({ name: 'RestoreError', outcome: 'unknown', cause })
    await expect(restore(db, 'create table t (n);', { resume: true })).rejects.toThrow(
      /^this is not the source of the interrupted restore: it has 1 statements, of which \d+ were applied$/,
    )
    await restore(db, LARGE_SCRIPT, { resume: true })
    await expectAllRows()
  })

  test('another process can resume an aborted restore', async () => {
    await createEmptyDatabase()
    const stop = new AbortController()
    const stopped = restore(db, LARGE_SCRIPT, { signal: stop.signal, onProgress: () => stop.abort('enough') })
    await expect(stopped).rejects.toBe('enough')
    const secondClient = open(database.config)
    await restore(secondClient, LARGE_SCRIPT, { resume: true })
    await expectAllRows()
  })

  test('a source that never yields is abandoned when the signal is aborted, the client closed or a statement fails', async () => {
    await createEmptyDatabase()
    const stop = new AbortController()
    async function* stalled(text: string, onWait = () => {}): AsyncGenerator<string> {
      yield text
      onWait()
      await new Promise(() => {})
    }
    const aborted = restore(
      db,
      stalled('create table t (a);', () => stop.abort('enough')),
      { signal: stop.signal },
    )
    await expect(aborted).rejects.toBe('enough')
    const failed = restore(db, stalled(`insert into missing values ('${'x'.repeat(600_000)}');`.repeat(5)))
    await expect(failed).rejects.toThrow('statement 1: SQLite error: no such table: missing')
    const closing = open(database.config)
    const closed = restore(
      closing,
      stalled('create table t (a);', () => void closing.close({ drainMs: 0 })),
    )
    await expect(closed).rejects.toThrow('closed')
    expect(await listTables()).toEqual([])
  })

  test('resumes after the server was repeatedly stopped', async ({ skip }) => {
    const restartable = await openRestartableServer(inject('target'), 100_000_000)
    if (restartable === null) skip('a server that the tests cannot restart')
    await using testServer = restartable as RestartableServer
    let restarts = 0
    let restarting = Promise.resolve()
    let batches = 0
    const db = open({
      ...testServer.config,
      maxRetries: 0,
      fetch: async (url, init) => {
        if (init.body?.includes('"batch"')) {
          await restarting
          batches += 1
          // the server stops while it executes the batch
          if (batches > 1 && restarts < 4) {
            restarts += 1
            restarting = testServer.restart()
          }
        }
        return fetch(url, init)
      },
    })
    for (let attempt = 0; ; attempt++) {
      const run = restore(db, LARGE_SCRIPT, { resume: attempt > 0, timeoutMs: 5_000 })
      const result = await run.catch((error: unknown) => error)
      await restarting
      if (!(result instanceof Error)) break
      expect(result).toBeInstanceOf(RestoreError)
      expect(attempt).toBeLessThan(8)
    }
    expect(restarts).toBeGreaterThan(2)
    await expectAllRows(ROW_COUNT, db)
    expect(await listTables(db)).toEqual(['t'])
  })

  test('a restore from a truncated source is rejected, and can be resumed', async () => {
    await createEmptyDatabase()
    const truncated = restore(db, LARGE_SCRIPT.slice(0, -1))
    await expect(truncated).rejects.toMatchObject({ cause: { name: 'ProtocolError' } })
    const shorter = restore(db, LARGE_SCRIPT.join('').slice(0, -1_000), { resume: true })
    await expect(shorter).rejects.toThrow(/ends/)
    await restore(db, LARGE_SCRIPT, { resume: true })
    await expectAllRows()
  })

  test.each([
    ['pragma page_size = 4096', 2],
    ['insrt into a values (1)', 3],
  ])('the error of a statement that the server cannot parse has its position: %s', async (sql, position) => {
    await createEmptyDatabase()
    const statements = ['create table a (b)', 'create table c (d)'].toSpliced(position - 1, 0, sql)
    await expect(restore(db, `${statements.join(';\n')};`)).rejects.toMatchObject({
      message: expect.stringContaining(`statement ${position}: SQL`) as string,
      cause: { statementIndex: position - 1, sql },
    })
    expect(await listTables()).toEqual([])
  })

  test('a small restore is atomic', async () => {
    await createEmptyDatabase()
    const script =
      'begin; create table t (n unique); insert into t values (1); insert into t values (1); commit;'
    await expect(restore(db, script)).rejects.toMatchObject({ applied: 0, cause: { statementIndex: 3 } })
    expect(await listTables()).toEqual([])
    const before = database.requestCount()
    await restore(db, script.replace('(1); commit', '(2); commit'))
    expect(database.requestCount() - before).toBe(1)
    expect(await listTables()).toEqual(['t'])
  })

  test.each(['mine', 'libsql_mine'])('rejects a database with a table %s', async (name) => {
    await createEmptyDatabase()
    await db.execute(`create table ${name} (a)`)
    for (const options of [{}, { resume: true }])
      await expect(restore(db, LARGE_SCRIPT, options)).rejects.toThrow('the database already has tables')
    expect(await listTables()).toEqual([name])
  })

  test.each([
    ['begin; create table t (a); rollback;', /rolls back/],
    ['begin; savepoint s; commit;', /savepoints/],
    ['begin; create table t (a);', /before its COMMIT/],
    ['begin; create table t (a', /middle of a statement/],
  ])('rejects a script that is not a dump: %s', async (script, message) => {
    const before = await listTables()
    await expect(restore(db, script)).rejects.toThrow(message)
    expect(await listTables()).toEqual(before)
  })

  test('rejects invalid options', async () => {
    await expect(restore(db, '', { progress: 1 } as object)).rejects.toThrow('unknown option progress')
  })
})

describe('dump', () => {
  test('is a snapshot, and does not block writers while its reader pauses', async () => {
    const db = await openTested()
    await db.batch([
      'create table a (x)',
      'create table z (x)',
      `insert into a with recursive c(i) as (select 1 union all select i + 1 from c where i < 20000)
       select hex(zeroblob(500)) from c`,
    ])
    let rows = 0
    for await (const statement of dump(db)) {
      if (!statement.startsWith('INSERT')) continue
      if ((rows += 1) === 1) await db.execute('insert into z values (1)')
    }
    expect(rows).toBe(20_000)
    for (let round = 0; round < 3; round++) for await (const _ of dump(db)) break
    const reader = dump(db).bytes().getReader()
    await reader.read()
    await reader.cancel()
    await db.execute('insert into z values (2)')
    const statements = await collectStatements(dump(db))
    expect(statements.filter((statement) => /INTO z /.test(statement))).toHaveLength(2)
  })

  test('a server failure is an error, never a partial dump', async () => {
    const db = await openTested()
    await db.batch(['create table t ("a""b")', "insert into t values ('x')"])
    const text = await readText(dump(db)).catch((error: unknown) => error)
    if (inject('target') === 'embedded') expect(text).toMatch(/INSERT INTO t VALUES\('x'\);\nCOMMIT;\n$/)
    else expect(text).toMatchObject({ code: 'NETWORK' })
  })
})

test('describes a statement', async () => {
  const db = await openTested()
  await db.execute('create table t (a integer, b text)')
  expect(await describeStatement(db, 'select a, b || 1 as c from t where a = ? and b = :name')).toEqual({
    params: [{ name: null }, { name: ':name' }],
    columns: [
      { name: 'a', declaredType: 'INTEGER' },
      { name: 'c', declaredType: null },
    ],
    isExplain: false,
    isReadOnly: true,
  })
  const write = await describeStatement(db, 'insert into t values (1, 2)')
  expect(write).toMatchObject({ isReadOnly: false, columns: [] })
  expect(await describeStatement(db, 'explain select 1;')).toMatchObject({ isExplain: true })
  const sql = 'select nope from t'
  await expect(describeStatement(db, sql)).rejects.toMatchObject({ name: 'SqlError', sql })
  expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 0 }])
})

describe('listen', () => {
  /** Listens until the expected number of rows has been inserted. */
  async function collectInserts(
    db: Client,
    expectedInserts: number,
    onReady: () => void,
  ): Promise<{ events: ChangeEvent[]; inserted: number }> {
    const events: ChangeEvent[] = []
    let inserted = 0
    for await (const event of listen(db, { table: 't' })) {
      events.push(event)
      if (event.type === 'ready') onReady()
      if (event.type === 'changes') inserted += event.insert
      if (inserted >= expectedInserts) break
    }
    return { events, inserted }
  }

  test('counts each of 300 committed changes once, and does not count changes that were rolled back', async () => {
    const db = await openTested()
    await db.execute('create table t (a)')
    const { promise, resolve } = Promise.withResolvers<void>()
    const collected = collectInserts(db, 301, resolve)
    await promise
    // libsql-server clears its counts only after it releases the write lock, so a rollback can clear those of another writer
    const writers = inject('target') === 'embedded' ? 4 : 1
    const write = async (): Promise<void> => {
      for (let round = 0; round < 100 / writers; round++) {
        await db.execute('insert into t values (1)')
        await db.batch(['insert into t values (2)', 'insert into t values (3)'])
        await executeMultiple(db, 'begin; insert into t values (4); rollback')
        const failing = db.batch(['insert into t values (4)', 'insert into missing values (1)'])
        await expect(failing).rejects.toThrow()
        // libsql-server counts changes that are undone when their stream ends, together with the next committed ones
        if (inject('target') !== 'embedded') continue
        const thrown = db.transaction(async (tx) => {
          await tx.execute('insert into t values (4)')
          throw new Error('no')
        })
        await expect(thrown).rejects.toThrow('no')
      }
    }
    await Promise.all(Array.from({ length: writers }, write))
    expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 300 }])
    // one more change, so that the listener does not stop too early
    await db.execute('insert into t values (5)')
    const { events, inserted } = await collected
    expect(inserted).toBe(301)
    expect(new Set(events.map(({ type }) => type))).toEqual(new Set(['ready', 'changes']))
    expect(events).toHaveLength(1 + 100 + 100 + 1)
  })

  test('reports only the requested actions', async () => {
    const db = await openTested()
    await db.batch(['create table t (a)', 'insert into t values (1), (2)'])
    const listener = listen(db, { table: 't', actions: ['delete', 'update'] })
    expect((await listener.next()).value).toEqual({ type: 'ready' })
    const next = listener.next()
    await db.execute('insert into t values (3)')
    await db.batch([
      'update t set a = 9 where a < 3',
      'delete from t where a = 3',
      'insert into t values (4)',
    ])
    expect((await next).value).toEqual({ type: 'changes', insert: 1, update: 2, delete: 1, unknown: 0 })
    await listener.return()
  })

  test('continues after a restart of the server, and reports that changes may have been lost', async ({
    skip,
  }) => {
    const restartable = await openRestartableServer(inject('target'), 10_000_000)
    if (restartable === null) skip('a server that the tests cannot restart')
    await using testServer = restartable as RestartableServer
    const db = open(testServer.config)
    await db.execute('create table t (a)')
    const listener = listen(db, { table: 't' })
    expect((await listener.next()).value).toEqual({ type: 'ready' })
    const first = listener.next()
    await db.execute('insert into t values (1)')
    expect((await first).value).toMatchObject({ type: 'changes', insert: 1 })
    const lost = listener.next()
    await testServer.restart()
    expect((await lost).value).toEqual({ type: 'lost', reason: 'reconnected' })
    const next = listener.next()
    await db.execute('insert into t values (2)')
    expect((await next).value).toMatchObject({ type: 'changes', insert: 1 })
    await listener.return()
  })
})

test('jobs report a schema change that was applied to the children, and one that failed', async ({
  skip,
}) => {
  const target = inject('target')
  if (target !== 'embedded' && target !== 'sqld')
    skip('a server on which the test cannot create schema databases')
  await using schemas = await startLocalServer({ backend: target === 'sqld' ? 'sqld' : 'embedded' })
  const parent = open(await schemas.createDatabase('parent', { isSchema: true }))
  await parent.execute('create table t (a integer primary key, b)')
  const childConfigs = ['one', 'two'].map((name) => schemas.createDatabase(name, { schema: 'parent' }))
  const children = (await Promise.all(childConfigs)).map(open)
  await parent.execute('alter table t add column c')
  const { jobs: jobList } = await jobs.list(parent)
  expect(jobList[0]).toMatchObject({ status: 'RunSuccess' })
  const id = jobList[0]?.id as number
  const statuses: JobStatus[] = []
  const job = await jobs.wait(parent, id, { onProgress: ({ status }) => statuses.push(status) })
  expect(statuses).toEqual(['RunSuccess'])
  expect(job).toMatchObject({ id, error: null })
  expect(job.progress.map(({ status, error }) => [status, error])).toEqual([
    ['Success', null],
    ['Success', null],
  ])
  for (const child of children) expect((await child.execute('select c from t')).columns).toEqual(['c'])

  // a change that the parent accepts and a child rejects
  await children[0]?.batch(['insert into t (b) values (1)', 'insert into t (b) values (1)'])
  await expect(parent.execute('create unique index u on t (b)')).rejects.toThrow()
  const failedId = (await jobs.list(parent)).jobs[0]?.id as number
  expect(failedId).toBeGreaterThan(id)
  const failure = { name: 'SqlError', code: 'SCHEMA_MIGRATION_ERROR' }
  await expect(jobs.wait(parent, failedId)).rejects.toMatchObject(failure)
  const { status, error, progress } = await jobs.get(parent, failedId)
  expect([status, new Set(progress.map((task) => task.status))]).toEqual(['RunFailure', new Set(['Failure'])])
  expect(error).toContain('UNIQUE constraint failed')
  await expect(jobs.get(parent, 999)).rejects.toMatchObject({ status: 404 })
  await expect(jobs.list(children[0] as Client)).rejects.toMatchObject({ status: 400 })
})
