import { expect, test } from 'vitest'
import { type RestoreBatch, splitIntoBatches } from './restore-batches.ts'

const readBatches = async (script: string): Promise<RestoreBatch[]> => {
  const batches: RestoreBatch[] = []
  for await (const batch of splitIntoBatches(script)) batches.push(batch)
  return batches
}
const translate = async (script: string): Promise<string[]> =>
  (await readBatches(script)).flatMap(({ statements }) => statements.map(({ sql }) => sql))

test('statements that each batch adds itself are omitted, but counted', async () => {
  const script =
    'PRAGMA foreign_keys=OFF; BEGIN TRANSACTION; CREATE TABLE t(a); PRAGMA writable_schema=ON; CREATE TABLE u(a); COMMIT;'
  expect(await readBatches(script)).toEqual([
    {
      statements: [
        { sql: 'CREATE TABLE t(a)', sourceIndex: 2 },
        { sql: 'CREATE TABLE u(a)', sourceIndex: 4 },
      ],
      end: 6,
      length: 34,
      isLast: true,
    },
  ])
})

test('virtual tables are created, and their shadow tables contain only the rows of the dump', async () => {
  const script = `INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','it''s','it''s',0,'CREATE VIRTUAL TABLE "it''s" USING fts5(a, tokenize=''ascii'')');
    CREATE TABLE IF NOT EXISTS 'it''s_data'(id INTEGER PRIMARY KEY, block BLOB);
    INSERT INTO 'it''s_data' VALUES(1,X'00');
    CREATE TABLE IF NOT EXISTS "it's_rowid"(a);
    CREATE TABLE IF NOT EXISTS its_data(a);
    INSERT INTO sqlite_master(type,name,tbl_name,rootpage,sql)VALUES('table','r','r',0,'CREATE VIRTUAL TABLE r USING rtree(a,b,c)');
    CREATE TABLE r_data(a);`
  expect(await translate(script)).toEqual([
    `CREATE VIRTUAL TABLE "it's" USING fts5(a, tokenize='ascii')`,
    `CREATE TABLE IF NOT EXISTS 'it''s_data'(id INTEGER PRIMARY KEY, block BLOB)`,
    `delete from 'it''s_data'`,
    `INSERT INTO 'it''s_data' VALUES(1,X'00')`,
    `CREATE TABLE IF NOT EXISTS "it's_rowid"(a)`,
    `delete from "it's_rowid"`,
    'CREATE TABLE IF NOT EXISTS its_data(a)',
    'CREATE VIRTUAL TABLE r USING rtree(a,b,c)',
    // as Python's iterdump() writes it
    'CREATE TABLE IF NOT EXISTS r_data(a)',
    'delete from r_data',
  ])
})

test('statistics, which servers reject, are omitted; sqlite_sequence exists before it is written', async () => {
  const script = `ANALYZE sqlite_schema; INSERT INTO sqlite_stat1 VALUES('t','i','1 1'); DELETE FROM sqlite_stat4;
    INSERT INTO sqlite_statistics VALUES(1); DELETE FROM sqlite_sequence; INSERT INTO sqlite_sequence VALUES('t',1);`
  expect(await translate(script)).toEqual([
    'INSERT INTO sqlite_statistics VALUES(1)',
    'create table baton_restore_sequence (n integer primary key autoincrement)',
    'drop table baton_restore_sequence',
    'DELETE FROM sqlite_sequence',
    "INSERT INTO sqlite_sequence VALUES('t',1)",
  ])
})

test.each([
  ['INSERT INTO t VALUES(inf,-inf,1);', 'INSERT INTO t VALUES(9e999,-9e999,1)'],
  [`INSERT INTO inf(inf,"inf)") VALUES('inf',inf);`, `INSERT INTO inf(inf,"inf)") VALUES('inf',9e999)`],
  [`INSERT INTO "values(inf" VALUES('it''s inf',inf);`, `INSERT INTO "values(inf" VALUES('it''s inf',9e999)`],
  ["INSERT INTO t VALUES('a\0''b','c');", "INSERT INTO t VALUES(CAST(X'61002762' AS TEXT),'c')"],
  ["INSERT INTO t VALUES('info');", "INSERT INTO t VALUES('info')"],
  ['CREATE TABLE t(inf);', 'CREATE TABLE t(inf)'],
  ['INSERT INTO t SELECT inf FROM u;', 'INSERT INTO t SELECT inf FROM u'],
])('translates values that libsql-server writes but cannot parse: %j', async (script, expected) => {
  expect(await translate(script)).toEqual([expected])
})

test('batches end between statements, after at most a million characters or 20,000 statements', async () => {
  const small = await readBatches('SELECT 1;'.repeat(50_000))
  expect(small.map(({ end, isLast }) => [end, isLast])).toEqual([
    [20_000, false],
    [40_000, false],
    [50_000, true],
  ])
  const large = `SELECT '${'x'.repeat(400_000)}';`
  expect((await readBatches(large.repeat(5))).map(({ end }) => end)).toEqual([2, 4, 5])
  const huge = `SELECT '${'x'.repeat(1_500_000)}';`
  expect((await readBatches(huge.repeat(2))).map(({ end, length }) => [end, length])).toEqual([
    [1, 1_500_009],
    [2, 1_500_009],
  ])
})

test.each(['', ' -- nothing\n', ';', 'PRAGMA foreign_keys=OFF;'])(
  'the script %j restores nothing, and is rejected',
  async (script) => {
    await expect(readBatches(script)).rejects.toThrow('the script has no statements: is it the right file?')
  },
)

test('the dump of an empty database is not an error', async () => {
  const [batch] = await readBatches('PRAGMA foreign_keys=OFF; BEGIN TRANSACTION; COMMIT;')
  expect(batch).toMatchObject({ statements: [], end: 3, isLast: true })
})
