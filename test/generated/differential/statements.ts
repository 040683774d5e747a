import fc from 'fast-check'
import { words } from '../../support/words.ts'

/** Names that the generated statements share, so that they use each other's tables. Some need quotes. */
const TABLES = ['t', 'u', 'v', '"od d"', 'f', 'r', 'n'] as const
const COLUMNS = ['a', 'b', 'c', 'rowid', '"x y"', 'g'] as const

const oneOf = <T extends string>(...choices: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...choices)

/** Replaces the placeholders `$1`, `$2`, … in a template with values of the arbitraries. */
function template(text: string, ...gaps: readonly fc.Arbitrary<string>[]): fc.Arbitrary<string> {
  return fc
    .tuple(...gaps)
    .map((values) => text.replace(/\$(\d)/g, (_, index) => values[Number(index) - 1] ?? ''))
}

const table = oneOf(...TABLES)
const column = oneOf(...COLUMNS)

const literal = oneOf(
  ...words(`
    0 1 -1 2 1.5 -0.0 1e300 9223372036854775807 -9223372036854775808 9007199254740993 NULL '' 'x'
    'X'
  `),
  "'Ünï'",
  "'it''s'",
  "x''",
  "x'00ff'",
  "x'ff'",
  "x'41c3'",
  "'a' || char(0) || 'b'",
  'TRUE',
  '0x1F',
  "cast(x'4142' as text)",
  ...words(`'[1,2,3]' '{"k":[1,{"z":null}]}' 1e999 -1e999 '2024-02-29' ? :a ?2`),
)

const functionName = oneOf(
  ...words(`
    abs hex lower upper length typeof quote unicode char trim round zeroblob json json_type
    json_valid json_quote json_array unhex sign soundex sqrt date octet_length vector32
    vector_extract median reverse sha3 nosuchfunction last_insert_rowid changes total_changes likely
    sum count max group_concat
  `),
)

const expression: fc.Arbitrary<string> = fc.letrec<{ e: string }>((tie) => ({
  e: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'expression' },
    literal,
    column,
    template('$1($2)', functionName, tie('e')),
    template(
      '($1 $2 $3)',
      tie('e'),
      oneOf(
        ...words('+ - * / % || = < IS'),
        'IS NOT',
        ...words('AND OR << & LIKE GLOB -> ->> REGEXP'),
        'COLLATE NOCASE =',
      ),
      tie('e'),
    ),
    template('($1 COLLATE $2)', tie('e'), oneOf('NOCASE', 'BINARY', 'RTRIM', 'NOSUCH')),
    template('CASE WHEN $1 THEN $2 ELSE $3 END', tie('e'), tie('e'), tie('e')),
    template('cast($1 as $2)', tie('e'), oneOf('text', 'integer', 'real', 'blob', 'numeric', '')),
    template('($1 IN ($2, $3))', tie('e'), tie('e'), tie('e')),
    template('(SELECT $1 FROM $2)', tie('e'), table),
    template('EXISTS (SELECT 1 FROM $1 WHERE $2)', table, tie('e')),
    template('json_extract($1, $2)', tie('e'), oneOf("'$.k'", "'$[0]'", "'$.k[1].z'", "'bad'")),
    template('coalesce($1, $2)', tie('e'), tie('e')),
    template('$1 OVER (ORDER BY $2)', oneOf('row_number()', 'sum(a)', 'lag(a)', 'count(*)'), tie('e')),
    template('printf($1, $2)', oneOf("'%d'", "'%s'", "'%.3f'", "'%q'", "'%x'"), tie('e')),
  ),
})).e

const alias = oneOf('', ' AS z', ' AS a', ' AS "x y"', ' -- comment\n', " AS 'lit'", ' /* c */')
const result = template('$1$2', expression, alias)
const results = fc.oneof(
  result,
  oneOf('*', 't.*', 'count(*)', 'rowid, *'),
  template('$1, $2', result, result),
)
const where = fc.oneof(oneOf('', '', ' WHERE a = 1', ' WHERE 0'), template(' WHERE $1', expression))
const returning = fc.oneof(
  oneOf('', '', ' RETURNING *', ' RETURNING rowid, a'),
  template(' RETURNING $1, $2', result, result),
)

const query: fc.Arbitrary<string> = fc.oneof(
  template('SELECT $1', results),
  template('SELECT $1 FROM $2$3', results, table, where),
  template(
    'SELECT $1 FROM $2$3 ORDER BY $4 LIMIT 5',
    results,
    table,
    where,
    oneOf('1', 'rowid', 'a, b', 'a DESC'),
  ),
  template(
    'SELECT $1 FROM $2 AS p LEFT JOIN $3 AS q ON p.a = q.a',
    oneOf('*', 'p.a, q.b', 'count(*)'),
    table,
    table,
  ),
  template('VALUES ($1, $2), ($3, 4)', literal, literal, literal),
  template(
    'WITH $1(a) AS ($2) SELECT * FROM $1',
    oneOf('w', 'replace', '"delete"'),
    oneOf('SELECT 1', 'VALUES (1), (2)', 'SELECT a FROM t'),
  ),
  template(
    'SELECT $1 FROM t $2 SELECT $3 FROM u',
    column,
    oneOf('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT'),
    column,
  ),
  template('SELECT a, count(*), $1 FROM $2 GROUP BY a HAVING $3', expression, table, expression),
  template('SELECT key, value, type FROM json_each($1)', literal),
  template('SELECT value FROM generate_series(1, 3) WHERE $1', expression),
  template("SELECT * FROM f WHERE f MATCH '$1'", oneOf('x', 'x OR y', 'bad"', 'x*', '')),
  template('SELECT * FROM r WHERE $1 > 0', oneOf('id', 'x0', 'a')),
  template(
    "SELECT id FROM vector_top_k('n_vector', vector32('[$1, 0, 1]'), $2)",
    oneOf('1', '2'),
    oneOf('1', '3'),
  ),
  template(
    'SELECT * FROM pragma_$1($2)',
    oneOf('table_info', 'index_list', 'foreign_key_list', 'table_xinfo'),
    oneOf("'t'", "'u'", ''),
  ),
  oneOf(
    'SELECT name, type, tbl_name, sql FROM sqlite_schema ORDER BY name',
    'SELECT 1 WHERE 0',
    'SELECT 1 AS a, 2 AS a, 3 AS "a"',
  ),
)

const columnDefinition = oneOf(
  'a',
  'a INTEGER PRIMARY KEY',
  'a INTEGER PRIMARY KEY AUTOINCREMENT',
  'a TEXT NOT NULL',
  'a UNIQUE',
  'a DEFAULT 5',
  'a DEFAULT (1 + 1)',
  'a CHECK (a > 0)',
  'a COLLATE NOCASE',
  'a REFERENCES u(a)',
  'a INT PRIMARY KEY DESC',
)
const moreColumns = oneOf(
  'b',
  'b, c',
  "b TEXT, c BLOB, g AS (a || 'g')",
  'b REAL, g AS (length(b)) STORED',
  'b, "x y"',
  'b INTEGER NOT NULL DEFAULT 1, c',
  'b, PRIMARY KEY (a, b)',
  'b, UNIQUE (a, b) ON CONFLICT REPLACE',
  'b, FOREIGN KEY (b) REFERENCES t(a) ON DELETE CASCADE',
  'a',
  'b ANY, c INT',
)

const definition: fc.Arbitrary<string> = fc.oneof(
  {
    weight: 6,
    arbitrary: template(
      'CREATE TABLE $1$2 ($3, $4)$5',
      oneOf('', 'IF NOT EXISTS '),
      table,
      columnDefinition,
      moreColumns,
      oneOf('', '', '', ' STRICT', ' WITHOUT ROWID'),
    ),
  },
  template('CREATE TABLE $1 AS $2', table, query),
  template(
    'CREATE $1INDEX $2 ON $3 ($4)$5',
    oneOf('', 'UNIQUE '),
    oneOf('i', 'j', 'IF NOT EXISTS i'),
    table,
    oneOf('a', 'b', 'a, b DESC', 'lower(a)', 'a COLLATE NOCASE', 'zzz'),
    oneOf('', '', ' WHERE a > 0'),
  ),
  template('CREATE VIEW $1 AS $2', oneOf('v', 'w', 'IF NOT EXISTS v'), query),
  template(
    'CREATE TRIGGER $1 $2 ON $3 BEGIN $4; END',
    oneOf('tr', 'IF NOT EXISTS tr', 'tr2'),
    oneOf('AFTER INSERT', 'BEFORE DELETE', 'INSTEAD OF INSERT', 'AFTER UPDATE OF a'),
    table,
    oneOf(
      'INSERT INTO u (a) VALUES (new.a)',
      "SELECT raise(ABORT, 'no')",
      'SELECT raise(IGNORE)',
      "SELECT raise(ROLLBACK, 'gone')",
      'DELETE FROM u',
      'UPDATE u SET a = 1; SELECT 1',
    ),
  ),
  oneOf(
    'CREATE VIRTUAL TABLE f USING fts5(a, b)',
    'CREATE VIRTUAL TABLE f USING fts5(a, nosuch=1)',
    'CREATE VIRTUAL TABLE r USING rtree(id, x0, x1)',
    'CREATE VIRTUAL TABLE f USING fts4(a)',
    'CREATE VIRTUAL TABLE q USING nosuch(a)',
  ),
  oneOf(
    'CREATE TABLE n (a INTEGER PRIMARY KEY, e F32_BLOB(3))',
    'CREATE INDEX n_vector ON n (libsql_vector_idx(e))',
    'DROP INDEX n_vector',
    'REINDEX',
    'REINDEX t',
  ),
  template(
    'DROP $1 $2$3',
    oneOf('TABLE', 'VIEW', 'INDEX', 'TRIGGER'),
    oneOf('', 'IF EXISTS '),
    oneOf('t', 'u', 'v', 'w', 'i', 'j', 'tr', 'f', 'r', 'n'),
  ),
  template(
    'ALTER TABLE $1 $2',
    table,
    oneOf(
      'ADD COLUMN d',
      'ADD COLUMN d DEFAULT 7',
      'ADD COLUMN d NOT NULL',
      'ADD a',
      'DROP COLUMN b',
      'RENAME TO u',
      'RENAME COLUMN a TO d',
      'ALTER COLUMN b TO b TEXT',
      'RENAME d TO a',
    ),
  ),
)

const change: fc.Arbitrary<string> = fc.oneof(
  {
    weight: 5,
    arbitrary: template(
      'INSERT $1INTO $2 VALUES ($3, $4)$5',
      oneOf('', '', 'OR REPLACE ', 'OR IGNORE ', 'OR FAIL ', 'OR ROLLBACK '),
      table,
      literal,
      literal,
      returning,
    ),
  },
  template('INSERT INTO $1 (a) VALUES ($2), ($3)$4', table, literal, literal, returning),
  template(
    'INSERT INTO $1 (a, b) VALUES ($2, 1) ON CONFLICT $3$4',
    table,
    literal,
    oneOf('DO NOTHING', '(a) DO UPDATE SET b = excluded.b', 'DO UPDATE SET b = b + 1'),
    returning,
  ),
  template('INSERT INTO $1 (a, b) $2', table, query),
  template('INSERT INTO $1 DEFAULT VALUES$2', table, returning),
  template('REPLACE INTO $1 (a) VALUES ($2)$3', table, literal, returning),
  template(
    'UPDATE $1$2 SET $3 = $4$5$6',
    oneOf('', 'OR IGNORE '),
    table,
    column,
    expression,
    where,
    returning,
  ),
  template('UPDATE t SET b = u.b FROM u WHERE t.a = u.a$1', returning),
  template('DELETE FROM $1$2$3', table, where, returning),
  template('WITH w AS (SELECT 1 AS a) INSERT INTO t (a) SELECT a FROM w$1', returning),
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
  'BEGIN',
  'BEGIN IMMEDIATE',
  'BEGIN DEFERRED',
  'COMMIT',
  'ROLLBACK',
  'SAVEPOINT s',
  'RELEASE s',
  'ROLLBACK TO s',
  'END',
  'BEGIN EXCLUSIVE TRANSACTION',
)

const pragma = oneOf(
  'PRAGMA user_version',
  'PRAGMA user_version = 5',
  'PRAGMA foreign_keys',
  'PRAGMA foreign_keys = OFF',
  'PRAGMA foreign_keys = 1',
  'PRAGMA table_info(t)',
  'PRAGMA table_xinfo("od d")',
  'PRAGMA index_list(t)',
  'PRAGMA foreign_key_check',
  'PRAGMA integrity_check',
  'PRAGMA journal_mode',
  'PRAGMA synchronous',
  'PRAGMA encoding',
  'PRAGMA page_size',
  'PRAGMA nosuch',
  'PRAGMA writable_schema = 1',
  'PRAGMA schema_version',
  'PRAGMA schema_version = 1',
  'PRAGMA defer_foreign_keys = 1',
  'PRAGMA main.table_info(t)',
  'PRAGMA quick_check',
  'PRAGMA cache_size = 5',
  'PRAGMA query_only = 1',
  'PRAGMA application_id = 3',
  'PRAGMA temp_store_directory',
)

/** Invalid texts, and texts without a statement. */
export const INVALID_TEXTS: readonly string[] = [
  '',
  ' ',
  ';',
  ';;',
  '-- only',
  '/* only */',
  'SELEC 1',
  'SELECT',
  'SELECT 1 FROM',
  'SELECT 1; SELECT 2',
  "SELECT 'open",
  'SELECT "open',
  'SELECT 1 /* open',
  'SELECT 1; garbage',
  'SELECT 1;',
  ' SELECT 1 ; ',
  '\ufeffSELECT 1',
  'SELECT\u000b1',
  'SELECT\u00a01',
  'SELECT @@',
  'SELECT #1',
  'SELECT 1 2 3',
  'INSERT INTO',
  'CREATE TABLE',
  'CREATE TABLE x',
  'CREATE TEMP TABLE tt(a)',
  'CREATE TABLE temp.tt(a)',
  'VACUUM',
  'ANALYZE',
  'ATTACH x AS y',
  'DETACH y',
  'COMIT',
  'cast(1 as)',
  'SELECT cast(1 as)',
  'CREATE TABLE q(a, a)',
  'SELECT * FROM nosuch',
  'SELECT nosuch FROM t',
  'SELECT t.nosuch FROM t',
  'SELECT a FROM t, u',
  'SELECT count(*, 1)',
  'SELECT abs()',
  'INSERT INTO t VALUES (1,2,3,4,5,6,7,8)',
  'SELECT 0x',
  'SELECT 1e',
  "SELECT x'abc'",
  "SELECT x'zz'",
  'SELECT "nosuch"',
  'SELECT [a] FROM t',
  'SELECT `a` FROM t',
  'SELECT ?0',
  'SELECT ?99999',
  'SELECT :',
  'SELECT $a::b(c)',
  'SELECT 1 WHERE',
  'SELECT (1',
  'SELECT 1)',
  'SELECT 1 AS',
  'EXPLAIN',
  'EXPLAIN QUERY',
  'RELEASE',
  'SAVEPOINT',
  'BEGIN FOO',
  'DROP TABLE sqlite_master',
  'CREATE TABLE sqlite_x(a)',
]

const explain = template(
  '$1 $2',
  oneOf('EXPLAIN QUERY PLAN', 'EXPLAIN QUERY PLAN', 'explain'),
  fc.oneof(query, change),
)

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
