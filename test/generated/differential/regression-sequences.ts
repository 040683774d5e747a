import type { Exchange } from './sequences.ts'

/** Shrunk sequences that once received different responses. */
export const REGRESSIONS: readonly { readonly title: string; readonly exchanges: readonly Exchange[] }[] = [
  regression(
    'the type of a cast may not be empty',
    'SELECT cast(1 as )',
    'SELECT cast(1 as ""), cast(2 as int)',
  ),
  regression('a duplicate column is a syntax error', 'CREATE TABLE q (a, a)', 'ALTER TABLE t ADD COLUMN a'),
  regression(
    'LIMIT in an UPDATE or DELETE is accepted only by the parser',
    'DELETE FROM t LIMIT 1',
    'UPDATE t SET b = 1 ORDER BY a',
  ),
  regression('blob literals', "SELECT x'abc'", "SELECT x'zz'", "SELECT x''"),
  regression(
    'only the engine treats a vertical tab as white space',
    'create \u000btemp table x(a)',
    'select \u000b1',
  ),
  regression(
    'statements that are not allowed in a trigger',
    "create trigger tr after insert on t begin select raise(ignore, 'x'); end",
    'create trigger tr after insert on nosuch begin select 1; end',
  ),
  regression('LIMIT in an EXPLAIN', 'EXPLAIN QUERY PLAN DELETE FROM t LIMIT 1'),
  regression('variables', 'SELECT $a::b(c)', 'SELECT @@', 'SELECT :', 'SELECT #1', 'SELECT ?0'),
  regression(
    'comments are part of the name of a column',
    'SELECT 1 /* c */',
    'SELECT 1 AS a -- c',
    ' SELECT nosuch ; ',
  ),
  regression(
    'a byte order mark is not white space',
    '\ufeffSELECT 1',
    'SELECT 1\ufeff',
    'WITH x(a) AS (SELECT 1)\ufeffINSERT INTO t (a) SELECT 9',
  ),
  regression(
    'RETURNING is evaluated as written',
    'INSERT INTO t (b) VALUES (1), (2) RETURNING last_insert_rowid(), typeof(b), b',
    "UPDATE t SET b = x'ff' RETURNING b, hex(b)",
  ),
  regression(
    'arguments that mathematical functions reject',
    'SELECT sqrt(-1)',
    'SELECT log(0), 1',
    'SELECT exp(1e5)',
    'SELECT exp(-1e5)',
    'SELECT power(-8, 0.5)',
    'SELECT power(0, -1)',
    'SELECT acos(2)',
    'SELECT sqrt(2), log(10), exp(1), power(2, 0.5)',
  ),
  regression(
    'a statement that creates a value that is too large is undone',
    'INSERT INTO t (a) VALUES (zeroblob(5500000)) RETURNING a',
    'SELECT count(*) FROM t',
    'SELECT length(zeroblob(5000001))',
    'SELECT length(zeroblob(5000000))',
  ),
  regression(
    'an EXPLAIN does not block the statements after it',
    'EXPLAIN QUERY PLAN DELETE FROM t',
    'INSERT INTO t (b) VALUES (9)',
    'DROP TABLE t',
  ),
  {
    title: 'a duplicate column in SQL with several statements',
    exchanges: [
      exchange({ type: 'sequence', sql: 'SELECT nosuch;CREATE TABLE q (a, a);SELECT 1' }),
      exchange({ type: 'sequence', sql: 'SELECT nosuch;SELECT 1;CREATE TABLE q (a, a)' }),
      exchange({ type: 'sequence', sql: 'SELECT nosuch;SELECT 1;CREATE TABLE q (a, a);' }),
    ],
  },
  {
    title: 'an EXPLAIN needs no arguments, even if some are given',
    exchanges: [
      exchange({
        type: 'execute',
        stmt: {
          sql: 'EXPLAIN QUERY PLAN SELECT :a, :b',
          named_args: [{ name: 'a', value: { type: 'null' } }],
        },
      }),
      exchange({ type: 'sequence', sql: 'SELECT nosuch;CREATE TABLE q (a, a) WITHOUT ROWID' }),
    ],
  },
  {
    title: 'a step is parsed before its condition',
    exchanges: [
      exchange({
        type: 'batch',
        batch: { steps: [{ stmt: { sql_id: 2 }, condition: { type: 'ok', step: 5 } }] },
      }),
      exchange({
        type: 'batch',
        batch: { steps: [{ stmt: { sql: 'SELECT 1' }, condition: { type: 'ok', step: 5 } }] },
      }),
    ],
  },
  {
    title: 'arguments are counted first, and again after the columns were sent',
    exchanges: [
      exchange({ type: 'execute', stmt: { sql: 'SELECT :a', args: [{ type: 'null' }, { type: 'null' }] } }),
      {
        route: '/v3/cursor',
        continues: false,
        body: { batch: { steps: [{ stmt: { sql: 'SELECT a FROM t', args: [{ type: 'null' }] } }] } },
      },
    ],
  },
]

function exchange(...requests: readonly object[]): Exchange {
  return { route: '/v3/pipeline', continues: false, body: { requests } }
}

function regression(title: string, ...sql: readonly string[]): { title: string; exchanges: Exchange[] } {
  const executes = sql.map((text) => ({ type: 'execute', stmt: { sql: text } }))
  const describes = sql.map((text) => ({ type: 'describe', sql: text }))
  return { title, exchanges: [exchange(...describes), exchange(...executes)] }
}
