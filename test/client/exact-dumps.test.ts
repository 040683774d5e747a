// What servers write and read differently: a dump is restored with the same values on each of them.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import {
  type Client,
  createClient,
  dump,
  executeMultiple,
  exportFile,
  readRows,
  restore,
} from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { close, execute, pipeline, query, type WireRequest } from '../server/wire.ts'
import { seeded } from '../support/random.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { openTestServer } from '../support/test-server.ts'

const server = await openTestServer()
const backend = inject('target') === 'embedded' ? 'embedded' : 'sqld'
const embedded = await startLocalServer()
afterAll(() => embedded.close())
let count = 0

/** Opens an empty database on the server under test. */
async function openDatabase(): Promise<Client> {
  const db = createClient((await server.createDatabase()).config)
  onTestFinished(() => db.close())
  return db
}

/** Opens an empty database on the embedded server. */
async function openEmbedded(): Promise<Client> {
  const db = createClient(await embedded.createDatabase(`copy-${++count}`))
  onTestFinished(() => db.close())
  return db
}

async function dumpText(db: Client): Promise<string> {
  return await new Response(dump(db).bytes()).text()
}

const fromServer = { from: 'the server', to: 'the server' }
const ROUTES =
  inject('target') === 'embedded'
    ? [fromServer]
    : [fromServer, { from: 'the server', to: 'embedded' }, { from: 'embedded', to: 'the server' }]
const open = (place: string): Promise<Client> => (place === 'embedded' ? openEmbedded() : openDatabase())

test.each(ROUTES)('REALs are restored exactly: from $from to $to', async ({ from, to }) => {
  const source = await open(from)
  await source.execute('create table t (a integer primary key, b real, c)')
  // numbers with six decimals, of all magnitudes, and at the limits
  const limits = [Number.MAX_VALUE, 2 ** 1023, 2.2250738585072014e-308, 5e-324]
  const random = seeded(20_261_128)
  const bits = new DataView(new ArrayBuffer(8))
  const anyReal = (): number => {
    for (const offset of [0, 4]) bits.setUint32(offset, Math.floor(random() * 2 ** 32))
    const value = bits.getFloat64(0)
    // libsql-server writes whole numbers as integers, so that their type is lost in a column without one
    const isWhole = Number.isInteger(value) && Math.abs(value) < 2 ** 63
    return Number.isFinite(value) && !isWhole ? value : 0.5
  }
  for (let start = 0; start < 20_000; start += 1_000) {
    const numbers = Array.from({ length: 1_000 }, (_, n) => start + n)
    const atLimit = (n: number): number => (limits[n % 4] as number) * (n % 8 < 4 ? 1 : -1)
    const args = numbers.flatMap((n) => [
      n,
      n % 100 < 8 ? atLimit(n) : Number((random() * 1_000).toFixed(6)),
      anyReal(),
    ])
    await source.execute(`insert into t values ${numbers.map(() => '(?, ?, ?)').join()}`, args)
  }
  const copy = await open(to)
  await restore(copy, dump(source))
  const read = async (db: Client) =>
    (await db.execute('select b, c, typeof(c) from t order by a', [], { rowMode: 'array' })).rows
  const [before, after] = [await read(source), await read(copy)]
  expect(
    before.filter((row, index) => row.some((value, column) => value !== after[index]?.[column])),
  ).toEqual([])
  // and once more
  expect((await dumpText(copy)).split('\n').toSorted()).toEqual(
    (await dumpText(source)).split('\n').toSorted(),
  )
})

test.each(ROUTES)(
  'virtual tables with quoted options are restored: from $from to $to',
  async ({ from, to }) => {
    const source = await open(from)
    await source.batch([
      'create table doc (id integer primary key, body text)',
      "create virtual table search using fts5(body, content='doc', content_rowid='id')",
      "create virtual table prefixed using fts5(body, prefix='2 3', tokenize=\"porter 'unicode61'\")",
      "create virtual table contentless using fts5(body, content='')",
      'create virtual table box using rtree(id, x0, x1)',
      "insert into doc values (1, 'it''s running')",
      "insert into search(rowid, body) values (1, 'it''s running')",
      "insert into prefixed values ('it''s running')",
      "insert into contentless(rowid, body) values (7, 'running')",
      'insert into box values (1, 0.5, 1.5)',
    ])
    const copy = await open(to)
    await restore(copy, dump(source))
    const find = async (sql: string) => (await copy.execute(sql, [], { rowMode: 'array' })).rows
    expect(await find("select body from search where search match 'running'")).toEqual([["it's running"]])
    expect(await find("select body from prefixed where prefixed match 'run'")).toEqual([["it's running"]])
    expect(await find("select rowid from contentless where contentless match 'running'")).toEqual([[7]])
    expect(await find('select id, x0 from box')).toEqual([[1, 0.5]])
    const definitions = "select sql from sqlite_schema where sql like 'create virtual%' order by name"
    expect(await find(definitions)).toEqual(
      (await source.execute(definitions, [], { rowMode: 'array' })).rows,
    )
  },
)

test('a view that ends with a comment does not swallow the semicolon of its statement', async () => {
  const source = await openEmbedded()
  await source.batch(['create view v as select 1 as one -- one', 'create view w as select 2 as two'])
  const copy = await openDatabase()
  await restore(copy, dump(source).bytes())
  const statements: string[] = []
  for await (const statement of dump(source)) statements.push(statement)
  const second = await openDatabase()
  await restore(second, statements)
  expect((await second.execute('select one, two from v, w')).rows).toEqual([{ one: 1, two: 2 }])
})

test('text that sqlite3 writes with unistr() is restored', async () => {
  const db = await openDatabase()
  await restore(
    db,
    "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t(a);\nINSERT INTO t VALUES(unistr('two\\u000alines \\\\ it''s'));\nCOMMIT;\n",
  )
  expect((await db.execute('select a from t')).rows).toEqual([{ a: "two\nlines \\ it's" }])
})

describe('a blob literal that is too large, which libSQL would store as NULL', () => {
  const sql = `insert into t values (1, x'${'ab'.repeat(5_000_001)}')`
  const message = 'a blob of 5000001 bytes at offset 25 is too large: a value has at most 5000000 bytes'

  test.each<[string, (db: Client) => Promise<unknown>]>([
    ['execute', (db) => db.execute(sql)],
    ['batch', (db) => db.batch(['select 1', sql])],
    ['transaction', (db) => db.transaction((tx) => tx.execute(sql))],
    ['executeMultiple', (db) => executeMultiple(db, `select 1; ${sql}`)],
    ['readRows', async (db) => await readRows(db, sql).next()],
    ['restore', (db) => restore(db, `create table u (a); ${sql};`)],
  ])('is rejected before anything is sent: %s', async (_, run) => {
    const db = await openDatabase()
    await db.execute('create table t (id, a)')
    await expect(run(db)).rejects.toThrow(message)
    expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 0 }])
    await db.execute('drop table t')
  })
})

test('the embedded server rejects such a literal from any client, wherever it stands, and accepts the largest one', async () => {
  const { url } = await embedded.createDatabase('literals')
  const send = async (request: WireRequest) => (await pipeline(url, [request, close])).results[0]
  await query(url, 'create table t (a)')
  const large = `x'${'ab'.repeat(5_000_001)}'`
  for (const sql of [
    `insert into t values (${large})`,
    `select 1 where ${large} is null`,
    `alter table t add column b default ${large}`,
    `create view v as select ${large} as a`,
  ])
    for (const request of [execute(sql), { type: 'sequence', sql }])
      expect(await send(request)).toMatchObject({ error: { code: 'SQLITE_TOOBIG' } })
  expect(await query(url, `select length(x'${'AB'.repeat(5_000_000)}') as n`)).toEqual([['5000000']])
  expect(await query(url, 'select count(*) from t')).toEqual([['0']])
})

test('the embedded server writes REALs with the digits that every server reads exactly', async () => {
  const { url } = await embedded.createDatabase('digits')
  await using db = createClient({ url })
  await db.execute('create table t (a)')
  await db.execute('insert into t values (0.1), (?), (1.0), (1e300), (5e-324), (9e999), (1.5), (?)', [
    -0,
    -Number.MAX_VALUE,
  ])
  const text = await (await fetch(new URL('dump', url))).text()
  expect(text.match(/(?<=VALUES\().*(?=\))/g)).toEqual([
    '0.10000000000000000555',
    '-0.0',
    '1.0',
    '1.0000000000000000525e+300',
    '4.9406564584124654418e-324',
    '9e999',
    '1.5',
    '-1.7976931348623157e+308',
  ])
})

test("a dump of Python's iterdump(), which has the rows of virtual tables twice, is restored", async () => {
  const db = await openDatabase()
  const source = await openEmbedded()
  await source.batch([
    "create virtual table f using fts5(body, prefix='2 3')",
    "insert into f values ('hello')",
  ])
  const text = (await dumpText(source)).replaceAll('CREATE TABLE IF NOT EXISTS', 'CREATE TABLE')
  const [head, ...rest] = text.split(/(?<=INSERT INTO sqlite_schema.*\n)/)
  await restore(
    db,
    [head, `INSERT INTO "f" VALUES('hello');\n`, ...rest]
      .join('')
      .replace(
        /(?=COMMIT;\n$)/,
        `INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','v','v',0,'CREATE VIRTUAL TABLE v USING fts5vocab(f,''row'')');\nINSERT INTO "v" VALUES('hello',1,1);\n`,
      ),
  )
  expect((await db.execute("select rowid, body from f where f match 'hello'")).rows).toEqual([
    { rowid: 1, body: 'hello' },
  ])
  expect((await db.execute('select term, cnt from v')).rows).toEqual([{ term: 'hello', cnt: 1 }])
})

test('virtual tables are restored from a dump that contains their shadow tables first, as after VACUUM', async () => {
  const file = join(createTemporaryDirectory(), 'notes.db')
  {
    using original = new DatabaseSync(file)
    original.exec(`create table doc (id integer primary key, body); insert into doc values (1, 'running');
      create virtual table search using fts5(body, content='doc', content_rowid='id'); insert into search (search) values ('rebuild');
      create virtual table "old ""one" using fts4(body); insert into "old ""one" values ('walking');
      create virtual table box using rtree(id, x0, x1); insert into box values (1, 2, 3);
      create virtual table plain using fts5(body, columnsize=0); insert into plain values ('running');
      create table search_notes (a); insert into search_notes values ('kept');
      create table plain_stat (a); insert into plain_stat values ('kept too'); vacuum`)
  }
  await using notes = await startLocalServer({ backend })
  await using db = createClient(await notes.createDatabase('notes', { fromFile: file }))
  const text = await dumpText(db).catch((error: Error) => error.message)
  if (backend === 'sqld') {
    // it cannot dump a name with a quote
    expect(text).toContain('an empty name or one with a double quote')
    await db.execute('drop table "old ""one"')
  }
  const copy = await openDatabase()
  await restore(copy, dump(db))
  const find = async (sql: string) => (await copy.execute(sql, [], { rowMode: 'array' })).rows
  expect(await find("select rowid, body from search where search match 'running'")).toEqual([[1, 'running']])
  expect(await find("select body from plain where plain match 'running'")).toEqual([['running']])
  if (backend === 'embedded')
    expect(await find(`select body from "old ""one" where body match 'walking'`)).toEqual([['walking']])
  expect(await find('select id, x1 from box where x0 < 2.5')).toEqual([[1, 3]])
  expect(await find('select a from search_notes union all select a from plain_stat')).toEqual([
    ['kept'],
    ['kept too'],
  ])
  expect(await find("select name from sqlite_schema where name like 'baton%'")).toEqual([])
  await copy.execute("insert into plain values ('running again')")
  expect(await find("select count(*) from plain where plain match 'running'")).toEqual([[2]])
})

test('text that is not UTF-8 is restored as it is, or the dump fails and says so', async () => {
  const source = await openDatabase()
  await source.batch([
    'create table t (a)',
    "insert into t values (cast(x'c328' as text)), (cast(x'eda080' as text)), ('valid')",
  ])
  if (inject('target') !== 'embedded') {
    await expect(dumpText(source)).rejects.toThrow('text that is not UTF-8')
    return
  }
  const copy = await openDatabase()
  await restore(copy, dump(source))
  expect((await copy.execute('select hex(a) as hex, typeof(a) as type from t')).rows).toEqual(
    ['C328', 'EDA080', '76616C6964'].map((hex) => ({ hex, type: 'text' })),
  )
})

test('a dump of a table with a missing collation fails, and says so', async () => {
  const file = join(createTemporaryDirectory(), 'cards.db')
  {
    using original = new DatabaseSync(file)
    original.exec(
      `create virtual table notes using fts5(body); create table small (a);
        create table tags (tag text primary key collate nocase) without rowid`,
    )
  }
  // as Anki, whose program defines a collation
  const content = await readFile(file, 'latin1')
  await writeFile(file, content.replace('collate nocase', 'collate anyset'), 'latin1')
  await using cards = await startLocalServer({ backend })
  const config = await cards.createDatabase('cards', { fromFile: file })
  await using db = createClient(config)
  await expect(dumpText(db)).rejects.toThrow(
    backend === 'embedded' ? /cannot be dumped: table tags: .*exportFile/ : /missing collation/,
  )
  // a program that runs what it has received does not continue with a schema that can be written
  if (backend === 'embedded')
    expect(await (await fetch(new URL('dump', config.url))).text()).toMatch(
      /writable_schema=OFF;\n\/\* ERROR: .* \*\/\nROLLBACK;/,
    )
  expect((await db.execute('select count(*) as n from small')).rows).toEqual([{ n: 0 }])
})

test('a dump of a value that cannot be restored fails, and names its table', async () => {
  const file = join(createTemporaryDirectory(), 'files.db')
  {
    using original = new DatabaseSync(file)
    original.exec(
      'create table small (a); insert into small values (1); create table files (a); insert into files values (1), (zeroblob(6000000))',
    )
  }
  await using files = await startLocalServer({ backend })
  await using db = createClient(await files.createDatabase('files', { fromFile: file }))
  await expect(dumpText(db)).rejects.toThrow(
    backend === 'embedded' ? /table files.*5000000 bytes/ : /5000000 bytes/,
  )
  // the way out
  let bytes = 0
  for await (const part of exportFile(db)) bytes += part.length
  expect(bytes).toBeGreaterThan(6_000_000)
})
