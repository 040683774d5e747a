import fc from 'fast-check'
import { phrases, words } from '../../support/words.ts'

const oneOf = <T extends string>(...choices: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...choices)

const literal = oneOf(
  ...words(`
    0 1 -1 2 1.5 -0.0 1e300 9223372036854775807 -9223372036854775808 9007199254740993 NULL '' 'x'
    'X' 'Ünï' 'it''s' x'' x'00ff' x'ff' x'41c3'
  `),
  "'a' || char(0) || 'b'",
  'TRUE',
  '0x1F',
  "cast(x'4142' as text)",
  ...words(`'[1,2,3]' '{"k":[1,{"z":null}]}' 1e999 -1e999 '2024-02-29' ? :a ?2`),
)
const operator = oneOf(
  ...words('+ - * / % || = < IS'),
  'IS NOT',
  ...words('AND OR << & LIKE GLOB -> ->> REGEXP'),
  'COLLATE NOCASE =',
)
/** Arbitraries for gaps of templates. The names of tables and columns are few, so that statements use each other's tables. */
const named: Record<string, fc.Arbitrary<string>> = {
  table: oneOf('t', 'u', 'v', '"od d"', 'f', 'r', 'n'),
  column: oneOf('a', 'b', 'c', 'rowid', '"x y"', 'g'),
  literal,
  operator,
  function: oneOf(
    ...words(`
      abs hex lower upper length typeof quote unicode char trim round zeroblob json json_type
      json_valid json_quote json_array unhex sign soundex sqrt date octet_length vector32
      vector_extract median reverse sha3 nosuchfunction last_insert_rowid changes total_changes likely
      sum count max group_concat
    `),
  ),
}

/** Fills the gaps of a template: `{name}` with a named arbitrary, `{x|y|z}` with one of the choices. */
function template(text: string): fc.Arbitrary<string> {
  const [start = '', ...rest] = text.split('{')
  const parts = rest.map((part) => part.split('}'))
  const gaps = parts.map(([gap = '']) => named[gap] ?? oneOf(...gap.split('|')))
  return fc
    .tuple(...gaps)
    .map((values) => start + values.map((value, index) => value + parts[index]?.[1]).join(''))
}
/** One of several templates. */
const templates = (...texts: readonly string[]): fc.Arbitrary<string> => fc.oneof(...texts.map(template))

named['expression'] = fc.letrec<{ e: string }>((tie) => ({
  e: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'expression' },
    literal,
    named['column'] as fc.Arbitrary<string>,
    ...phrases(`
      {function}({e})
      ({e} {operator} {e})
      ({e} COLLATE {NOCASE|BINARY|RTRIM|NOSUCH})
      CASE WHEN {e} THEN {e} ELSE {e} END
      cast({e} as {text|integer|real|blob|numeric|})
      ({e} IN ({e}, {e}))
      (SELECT {e} FROM {table})
      EXISTS (SELECT 1 FROM {table} WHERE {e})
      json_extract({e}, {'$.k'|'$[0]'|'$.k[1].z'|'bad'})
      coalesce({e}, {e})
      {row_number()|sum(a)|lag(a)|count(*)} OVER (ORDER BY {e})
      printf({'%d'|'%s'|'%.3f'|'%q'|'%x'}, {e})
    `).map((text) => {
      named['e'] = tie('e')
      return template(text)
    }),
  ),
})).e
named['result'] = template('{expression}{| AS z| AS a| AS "x y"| -- comment\n| AS \'lit\'| /* c */}')
named['results'] = templates('{result}', '{*|t.*|count(*)|rowid, *}', '{result}, {result}')
named['where'] = templates('{|| WHERE a = 1| WHERE 0}', ' WHERE {expression}')
named['returning'] = templates('{|| RETURNING *| RETURNING rowid, a}', ' RETURNING {result}, {result}')

const query = fc.oneof(
  ...phrases(`
    SELECT {results}
    SELECT {results} FROM {table}{where}
    SELECT {results} FROM {table}{where} ORDER BY {1|rowid|a, b|a DESC} LIMIT 5
    SELECT {*|p.a, q.b|count(*)} FROM {table} AS p LEFT JOIN {table} AS q ON p.a = q.a
    VALUES ({literal}, {literal}), ({literal}, 4)
  `).map(template),
  template('WITH {w|replace|"delete"}(a) AS ({SELECT 1|VALUES (1), (2)|SELECT a FROM t}) SELECT * FROM ').map(
    (text) => text + (/^WITH (.*?)\(a/.exec(text)?.[1] ?? ''),
  ),
  ...phrases(`
    SELECT {column} FROM t {UNION|UNION ALL|EXCEPT|INTERSECT} SELECT {column} FROM u
    SELECT a, count(*), {expression} FROM {table} GROUP BY a HAVING {expression}
    SELECT key, value, type FROM json_each({literal})
    SELECT value FROM generate_series(1, 3) WHERE {expression}
    SELECT * FROM f WHERE f MATCH '{x|x OR y|bad"|x*|}'
    SELECT * FROM r WHERE {id|x0|a} > 0
    SELECT id FROM vector_top_k('n_vector', vector32('[{1|2}, 0, 1]'), {1|3})
    SELECT * FROM pragma_{table_info|index_list|foreign_key_list|table_xinfo}({'t'|'u'|})
  `).map(template),
  oneOf(
    'SELECT name, type, tbl_name, sql FROM sqlite_schema ORDER BY name',
    'SELECT 1 WHERE 0',
    'SELECT 1 AS a, 2 AS a, 3 AS "a"',
  ),
)
named['query'] = query
named['columnDefinition'] = oneOf(
  ...phrases(`
    a | a INTEGER PRIMARY KEY | a INTEGER PRIMARY KEY AUTOINCREMENT | a TEXT NOT NULL | a UNIQUE | a DEFAULT 5
    a DEFAULT (1 + 1) | a CHECK (a > 0) | a COLLATE NOCASE | a REFERENCES u(a) | a INT PRIMARY KEY DESC
  `),
)
named['moreColumns'] = oneOf(
  ...phrases(`
    b | b, c | b TEXT, c BLOB, g AS (a || 'g') | b REAL, g AS (length(b)) STORED | b, "x y"
    b INTEGER NOT NULL DEFAULT 1, c | b, PRIMARY KEY (a, b) | b, UNIQUE (a, b) ON CONFLICT REPLACE
    b, FOREIGN KEY (b) REFERENCES t(a) ON DELETE CASCADE | a | b ANY, c INT
  `),
)
named['triggerBody'] = oneOf(
  'INSERT INTO u (a) VALUES (new.a)',
  "SELECT raise(ABORT, 'no')",
  'SELECT raise(IGNORE)',
  "SELECT raise(ROLLBACK, 'gone')",
  'DELETE FROM u',
  'UPDATE u SET a = 1; SELECT 1',
)
named['alteration'] = oneOf(
  ...phrases(`
    ADD COLUMN d | ADD COLUMN d DEFAULT 7 | ADD COLUMN d NOT NULL | ADD a | DROP COLUMN b | RENAME TO u
    RENAME COLUMN a TO d | ALTER COLUMN b TO b TEXT | RENAME d TO a
  `),
)

const definition = fc.oneof(
  {
    weight: 6,
    arbitrary: template(
      'CREATE TABLE {|IF NOT EXISTS }{table} ({columnDefinition}, {moreColumns}){||| STRICT| WITHOUT ROWID}',
    ),
  },
  ...phrases(`
    CREATE TABLE {table} AS {query}
    CREATE {|UNIQUE }INDEX {i|j|IF NOT EXISTS i} ON {table} ({a|b|a, b DESC|lower(a)|a COLLATE NOCASE|zzz}){|| WHERE a > 0}
    CREATE VIEW {v|w|IF NOT EXISTS v} AS {query}
    CREATE TRIGGER {tr|IF NOT EXISTS tr|tr2} {AFTER INSERT|BEFORE DELETE|INSTEAD OF INSERT|AFTER UPDATE OF a} ON {table} BEGIN {triggerBody}; END
  `).map(template),
  oneOf(
    ...phrases(`
      CREATE VIRTUAL TABLE f USING fts5(a, b)
      CREATE VIRTUAL TABLE f USING fts5(a, nosuch=1)
      CREATE VIRTUAL TABLE r USING rtree(id, x0, x1)
      CREATE VIRTUAL TABLE f USING fts4(a)
      CREATE VIRTUAL TABLE q USING nosuch(a)
    `),
  ),
  oneOf(
    ...phrases(`
      CREATE TABLE n (a INTEGER PRIMARY KEY, e F32_BLOB(3))
      CREATE INDEX n_vector ON n (libsql_vector_idx(e)) | DROP INDEX n_vector | REINDEX | REINDEX t
    `),
  ),
  template('DROP {TABLE|VIEW|INDEX|TRIGGER} {|IF EXISTS }{t|u|v|w|i|j|tr|f|r|n}'),
  template('ALTER TABLE {table} {alteration}'),
)

const change = fc.oneof(
  {
    weight: 5,
    arbitrary: template(
      'INSERT {||OR REPLACE |OR IGNORE |OR FAIL |OR ROLLBACK }INTO {table} VALUES ({literal}, {literal}){returning}',
    ),
  },
  ...phrases(`
    INSERT INTO {table} (a) VALUES ({literal}), ({literal}){returning}
    INSERT INTO {table} (a, b) VALUES ({literal}, 1) ON CONFLICT {DO NOTHING|(a) DO UPDATE SET b = excluded.b|DO UPDATE SET b = b + 1}{returning}
    INSERT INTO {table} (a, b) {query}
    INSERT INTO {table} DEFAULT VALUES{returning}
    REPLACE INTO {table} (a) VALUES ({literal}){returning}
    UPDATE {|OR IGNORE }{table} SET {column} = {expression}{where}{returning}
    UPDATE t SET b = u.b FROM u WHERE t.a = u.a{returning}
    DELETE FROM {table}{where}{returning}
    WITH w AS (SELECT 1 AS a) INSERT INTO t (a) SELECT a FROM w{returning}
  `).map(template),
  oneOf(
    "INSERT INTO f VALUES ('x y', 'y')",
    'INSERT INTO r VALUES (1, 0.5, 2)',
    "INSERT INTO n VALUES (1, vector32('[1,2,3]')), (2, vector32('[3,2,1]'))",
    "INSERT INTO n VALUES (5, '[1,2]')",
    "INSERT INTO f(f) VALUES ('optimize')",
    'DELETE FROM t LIMIT 1',
    'UPDATE t SET a = 1 LIMIT 1',
  ),
)

const control = oneOf(
  ...phrases(`
    BEGIN | BEGIN IMMEDIATE | BEGIN DEFERRED | COMMIT | ROLLBACK | SAVEPOINT s | RELEASE s | ROLLBACK TO s | END
    BEGIN EXCLUSIVE TRANSACTION
  `),
)

const pragma = oneOf(
  ...phrases(`
    user_version | user_version = 5 | foreign_keys | foreign_keys = OFF | foreign_keys = 1 | table_info(t)
    table_xinfo("od d") | index_list(t) | foreign_key_check | integrity_check | journal_mode | synchronous
    encoding | page_size | nosuch | writable_schema = 1 | schema_version | schema_version = 1
    defer_foreign_keys = 1 | main.table_info(t) | quick_check | cache_size = 5 | query_only = 1
    application_id = 3 | temp_store_directory
  `).map((text) => `PRAGMA ${text}`),
)

/** Invalid texts, and texts without a statement. */
export const INVALID_TEXTS: readonly string[] = [
  '',
  ' ',
  ...phrases(`
    ; | ;; | -- only | /* only */ | SELEC 1 | SELECT | SELECT 1 FROM | SELECT 1; SELECT 2 | SELECT 'open
    SELECT "open | SELECT 1 /* open | SELECT 1; garbage | SELECT 1;
  `),
  ' SELECT 1 ; ',
  '\ufeffSELECT 1',
  'SELECT\u000b1',
  'SELECT\u00a01',
  ...phrases(`
    SELECT @@ | SELECT #1 | SELECT 1 2 3 | INSERT INTO | CREATE TABLE | CREATE TABLE x | CREATE TEMP TABLE tt(a)
    CREATE TABLE temp.tt(a) | VACUUM | ANALYZE | ATTACH x AS y | DETACH y | COMIT | cast(1 as)
    SELECT cast(1 as) | CREATE TABLE q(a, a) | SELECT * FROM nosuch | SELECT nosuch FROM t
    SELECT t.nosuch FROM t | SELECT a FROM t, u | SELECT count(*, 1) | SELECT abs()
    INSERT INTO t VALUES (1,2,3,4,5,6,7,8) | SELECT 0x | SELECT 1e | SELECT x'abc' | SELECT x'zz'
    SELECT "nosuch" | SELECT [a] FROM t
  `),
  'SELECT `a` FROM t',
  ...phrases(`
    SELECT ?0 | SELECT ?99999 | SELECT : | SELECT $a::b(c) | SELECT 1 WHERE | SELECT (1 | SELECT 1) | SELECT 1 AS
    EXPLAIN | EXPLAIN QUERY | RELEASE | SAVEPOINT | BEGIN FOO | DROP TABLE sqlite_master | CREATE TABLE sqlite_x(a)
  `),
]

named['queryOrChange'] = fc.oneof(query, change)
const explain = template('{EXPLAIN QUERY PLAN|EXPLAIN QUERY PLAN|explain} {queryOrChange}')

/** Any statement whose result does not depend on time or randomness. */
export const statement: fc.Arbitrary<string> = fc.oneof(
  { weight: 5, arbitrary: definition },
  { weight: 6, arbitrary: change },
  { weight: 6, arbitrary: query },
  { weight: 2, arbitrary: control },
  { weight: 1, arbitrary: pragma },
  { weight: 1, arbitrary: explain },
  { weight: 1, arbitrary: oneOf(...INVALID_TEXTS) },
)

/** The statements that a sequence begins with, so that most of its statements find their tables. */
export const SETUP: readonly string[] = [
  'CREATE TABLE t (a INTEGER PRIMARY KEY, b, c)',
  'CREATE TABLE u (a, b)',
  "INSERT INTO t VALUES (1, 'x', 1.5), (2, NULL, x'00')",
  "INSERT INTO u VALUES (1, 'one'), (3, 'three')",
]
