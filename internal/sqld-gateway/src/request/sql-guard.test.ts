import { describe, expect, test } from 'vitest'
import { findRejection, type SqlUse } from './sql-guard.ts'
import { tokenizeSql } from './sql-tokens.ts'

const run: SqlUse = { kind: 'run', mayWrite: true }
const describeUse: SqlUse = { kind: 'describe', mayWrite: true }
const store: SqlUse = { kind: 'store', mayWrite: true }
const asReader = (use: SqlUse): SqlUse => ({ ...use, mayWrite: false })

describe('rejects whatever the permissions of the client', () => {
  test.each([
    "select writefile('f', 'x')",
    "select WriteFile /* */ ('f', 'x')",
    `select "writefile"('f', 'x')`,
    'select [readfile](?)',
    'select `readfile`(?)',
    "select name from fsdir('/')",
    "select name from 'fsdir' where path = '/'",
    "select name from main.'fsdir' where path = '/'",
    "with x as (select sha3_query('select 1')) select * from x",
    "create table t(a check (writefile('f', a) > 0))",
    "create virtual table t using fts4(a, compress=lower, uncompress='readfile')",
    `create virtual table t using fts5(name, content="fsdir", content_rowid='path')`,
    "create virtual table t using fts5(name; , content='fsdir')",
    'select fts3_tokenizer(?, ?)',
    'update sqlite_dbpage set data = ? where pgno = 1',
    "select sqlite3mc_config('cipher')",
    `select 1; select 'it''s'; select "readfile"(1)`,
    `create index "a(x); attach 'f' as z;--" on t(libsql_vector_idx(e))`,
    `explain create unique index if not exists main.'a b' on t("libsql_vector_idx"(e))`,
    `create index "a;b" on t(a)`,
    'explain pragma foreign_keys = off',
    'explain query plan pragma writable_schema(1)',
    // parsers disagree on these: where the text or a literal ends, or whether something is a variable or a call
    "select $x('), writefile('a', 'b') --'",
    'select "a"\0; select readfile(1)',
    '\ufeffselect readfile(1)',
    "select x'00''readfile(1)'; select '' readfile(1)",
    "select 'never closed readfile(1)",
    '/* never closed readfile(1)',
  ])('%j', (sql) => {
    expect(findRejection(sql, run)).toMatchObject({ type: 'rejected' })
    expect(findRejection(sql, asReader(run))).toMatchObject({ type: 'rejected' })
    expect(findRejection(sql, store)).toMatchObject({ type: 'rejected' })
  })

  test.each([
    'pragma writable_schema = 1',
    'pragma main.writable_schema(on)',
    'pragma "writable_schema" = 1',
    "; pragma temp_store_directory = '/tmp'",
    "pragma rekey = 'x'",
    'pragma hard_heap_limit = 1000',
    '\ufeffpragma writable_schema = 1',
  ])('when it is only prepared: %j', (sql) => {
    expect(findRejection(sql, describeUse)).toMatchObject({ type: 'rejected' })
    expect(findRejection(sql, store)).toMatchObject({ type: 'rejected' })
  })
})

describe('rejects for read-only tokens', () => {
  test.each([
    'drop index i',
    '/**/ ; Drop index i',
    'create index i on t(libsql_vector_idx(e))',
    'select 1; drop table t',
    'reindex',
    'analyze',
    'alter table t rename to u',
    'pragma user_version = 1',
  ])('described: %j', (sql) => {
    expect(findRejection(sql, asReader(describeUse))).toEqual({ type: 'permissions' })
    expect(findRejection(sql, describeUse)).toBeNull()
  })

  test.each(['explain drop index i', 'explain query plan drop table t'])('explained: %j', (sql) => {
    expect(findRejection(sql, asReader(run))).toEqual({ type: 'permissions' })
    expect(findRejection(sql, asReader(store))).toEqual({ type: 'permissions' })
    expect(findRejection(sql, run)).toBeNull()
  })

  test.each(['select optimize(f) from f', 'select * from pragma_optimize(2)'])('%j', (sql) => {
    expect(findRejection(sql, asReader(run))).toMatchObject({ type: 'rejected' })
  })
})

describe('allows', () => {
  test.each([
    'select 1',
    "insert into note values ('how writefile() and fsdir are called')",
    "select * from note where text like '%readfile%' -- readfile",
    '/* writefile( */ select 1',
    'select readfiles, my_readfile, "readfiles" from t',
    'create index "order by date" on t(a)',
    'create index if not exists i on t(libsql_vector_idx(e))',
    'create index "größe" on t(libsql_vector_idx("the column"))',
    'explain query plan select * from t',
    'explain insert into t values (1)',
    'pragma foreign_keys = off',
    "select x'00', 'it''s', \"a\"\"b\", `c`, [d], $e, :f, ?1 from t",
    'insert into optimize (a) values (1)',
  ])('%j', (sql) => expect(findRejection(sql, run)).toBeNull())

  test.each(['select 1', 'insert into t values (?)', 'pragma table_info(t)', 'pragma journal_mode', ''])(
    'described with a read-only token: %j',
    (sql) => expect(findRejection(sql, asReader(describeUse))).toBeNull(),
  )
})

test('tokenizes long SQL with unclosed quotes quickly', () => {
  // a quadratic search for the end would outlast the time limit of the test
  for (const text of ['/*', "'", '"', '[', "x'", '$a('])
    expect(tokenizeSql(text.repeat(300_000) + '/').tokens).not.toEqual([])
})
