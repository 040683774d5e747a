import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasSqld } from '../support/has-sqld.ts'
import { close, execute, pipeline, type WireRequest } from './wire.ts'

/** Text that C code tends to handle incorrectly. */
const UNUSUAL_TEXTS = [
  '\0',
  'a\0b',
  '\0\0',
  '',
  'é',
  '🙂',
  '\u2028"\\\n\t\u0001',
  `${'x'.repeat(1_000_000)}\0y`,
]

describe('values round-trip', () => {
  const server = startLocalServer()
  afterAll(async () => (await server).close())

  test.each(UNUSUAL_TEXTS.map((text) => [JSON.stringify(text).slice(0, 30), text]))(
    'text %s',
    async (_, text) => {
      const { url } = await server
      const reply = await pipeline(url, [
        execute('CREATE TABLE IF NOT EXISTS t(a TEXT, b BLOB)'),
        execute('DELETE FROM t'),
        execute('INSERT INTO t VALUES (?, ?) RETURNING *, a AS again, typeof(b)', text, Buffer.from(text)),
        execute('SELECT a, b, a || a, ? FROM t', text),
        execute('UPDATE t SET a = a RETURNING a, b'),
        execute('DELETE FROM t RETURNING rowid, a'),
        close,
      ])
      const cell = { type: 'text', value: text }
      const bytes = { type: 'blob', base64: Buffer.from(text).toString('base64').replace(/=+$/, '') }
      const rows = reply.results.map((result) => result.response?.result?.rows[0])
      expect(rows[2]).toEqual([cell, bytes, cell, { type: 'text', value: 'blob' }])
      expect(rows[3]).toEqual([cell, bytes, { type: 'text', value: text + text }, cell])
      expect(rows[4]).toEqual([cell, bytes])
      expect(rows[5]).toEqual([{ type: 'integer', value: '1' }, cell])
    },
  )

  test('returns exact integers, floats in their shortest form, and the correct types', async () => {
    const { url } = await server
    const { text } = await pipeline(url, [
      execute(
        "SELECT 9223372036854775807, -9223372036854775808, 1.0, -0.0, 1e16, 1e15, 1.5e-7, 0.00001, 9e999, x'', '', NULL, '5', x'35'",
      ),
      close,
    ])
    const cells = /"rows":\[(\[.*?\])\],"affected/.exec(text)?.[1]
    expect(cells).toBe(
      '[{"type":"integer","value":"9223372036854775807"},{"type":"integer","value":"-9223372036854775808"},' +
        '{"type":"float","value":1.0},{"type":"float","value":-0.0},{"type":"float","value":1e16},{"type":"float","value":1000000000000000.0},' +
        '{"type":"float","value":1.5e-7},{"type":"float","value":0.00001},{"type":"float","value":null},{"type":"blob","base64":""},' +
        '{"type":"text","value":""},{"type":"null"},{"type":"text","value":"5"},{"type":"blob","base64":"NQ"}]',
    )
  })

  test('a non-deterministic function is called once per cell', async () => {
    const { url } = await server
    const reply = await pipeline(url, [
      execute(
        'SELECT a, b, a = b, typeof(c), length(c) FROM (SELECT r AS a, r AS b, randomblob(8) AS c FROM (SELECT random() AS r LIMIT 1)) WHERE a = b',
      ),
      execute('CREATE TABLE r(a)'),
      execute('INSERT INTO r VALUES (1), (2) RETURNING random()'),
      close,
    ])
    const row = reply.results[0]?.response?.result?.rows[0]
    expect(row?.[0]).toEqual(row?.[1])
    const [[firstValue] = [], [secondValue] = []] = reply.results[2]?.response?.result?.rows ?? []
    expect(firstValue).not.toEqual(secondValue)
  })
})

const SCHEMA = `
  CREATE TABLE user(id INTEGER PRIMARY KEY, name varchar(20) NOT NULL, age int, weight REAL, photo BLOB, "odd ""name" TEXT);
  CREATE TABLE post(id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES user(id), title TEXT, at datetime DEFAULT '2020-01-01');
  CREATE INDEX post_user ON post(user_id);
  CREATE VIEW adult AS SELECT id, name, age + 0 AS age FROM user WHERE age >= 18;
  CREATE TABLE pair(a, b, PRIMARY KEY (a, b)) WITHOUT ROWID;
  CREATE VIRTUAL TABLE note USING fts5(body);
  CREATE TABLE place(id INTEGER PRIMARY KEY, at F32_BLOB(2));
  CREATE INDEX place_at ON place(libsql_vector_idx(at));
  CREATE TRIGGER user_gone AFTER DELETE ON user BEGIN DELETE FROM post WHERE user_id = OLD.id; SELECT CASE WHEN 1 THEN 2 END; END;
  INSERT INTO user VALUES (1, 'Ada', 36, 55.5, x'00ff', 'x'), (2, 'Bob', 12, 40, NULL, NULL), (3, 'Cäsar', 56, NULL, x'', '');
  INSERT INTO post(user_id, title) VALUES (1, 'one'), (1, 'two'), (3, 'three');
  INSERT INTO pair VALUES (1, 'x'), (1, 'y'), ('1', x'01');
  INSERT INTO note VALUES ('the quick brown fox'), ('lazy dog');
  INSERT INTO place VALUES (1, vector32('[1,2]')), (2, vector32('[3,4]'));
`

/** Statements that must return the same results on both engines, in order. */
const QUERIES: readonly string[] = [
  'SELECT * FROM user',
  'SELECT * FROM user ORDER BY age DESC',
  'SELECT name FROM user ORDER BY weight IS NULL, weight DESC, id LIMIT 2 OFFSET 1',
  'SELECT u.*, p.* FROM user u JOIN post p ON p.user_id = u.id ORDER BY p.id DESC',
  'SELECT u.id, p.id FROM user u LEFT JOIN post p ON p.user_id = u.id ORDER BY 1, 2',
  "SELECT count(*), sum(age), avg(weight), group_concat(name, '|'), max(photo) FROM user",
  'SELECT user_id, count(*) AS n FROM post GROUP BY user_id HAVING n > 1 ORDER BY n DESC',
  'SELECT name, row_number() OVER (ORDER BY age) AS r, sum(age) OVER (ROWS UNBOUNDED PRECEDING) FROM user ORDER BY r DESC',
  "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x * 2 FROM c WHERE x < 100) SELECT x, x || '' FROM c ORDER BY x DESC",
  'WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a) SELECT * FROM a, b',
  "VALUES (1, 'a'), (2, x'62'), (NULL, 1.5)",
  'SELECT 1 UNION SELECT 2 UNION ALL SELECT 2 EXCEPT SELECT 1 ORDER BY 1 DESC',
  'SELECT DISTINCT age > 20 AS old FROM user ORDER BY old',
  'SELECT 1 AS a, 2 AS a, 3 AS "a b", 4 AS "q""q"',
  'SELECT "odd ""name", rowid, oid, user.rowid FROM user',
  'SELECT * FROM adult ORDER BY age',
  'SELECT * FROM (SELECT name, age FROM user ORDER BY age LIMIT 2) ORDER BY name DESC',
  'SELECT name, (SELECT count(*) FROM post WHERE user_id = user.id) AS posts, EXISTS (SELECT 1 FROM post WHERE user_id = user.id) FROM user',
  'SELECT typeof(weight), weight FROM user -- with a comment',
  'SELECT a, b, typeof(a), typeof(b) FROM pair ORDER BY a, b',
  "SELECT rowid, highlight(note, 0, '<', '>') FROM note WHERE note MATCH 'quick'",
  "SELECT id FROM vector_top_k('place_at', '[3,4]', 2)",
  "SELECT vector_extract(at), vector_distance_cos(at, '[1,2]') FROM place",
  "SELECT json_extract('{\"a\":[1,\"x\",null]}', '$.a[1]'), json_array(1, 'x', NULL), '{\"a\":1}' -> '$.a'",
  'SELECT key, value FROM json_each(\'{"a":1,"b":"x"}\')',
  "SELECT upper('é'), length('🙂'), substr('abc', -2), printf('%5.2f', 3.14159), hex(zeroblob(3)), quote(x'01'), char(65, 0, 66)",
  "SELECT date('2024-02-29', '+1 year'), strftime('%s', '2024-01-01'), unixepoch('2024-01-01')",
  'SELECT CASE WHEN age > 20 THEN name END FROM user',
  'SELECT CAST(age AS TEXT), CAST(name AS BLOB), CAST(weight AS INTEGER) FROM user',
  "SELECT name COLLATE NOCASE AS n FROM user WHERE name = 'ADA' COLLATE NOCASE",
  'SELECT (1, 2) = (1, 2), 5 IN (SELECT id FROM user), NULL IS NULL',
  'SELECT value FROM generate_series(1, 5) WHERE value % 2 ORDER BY value DESC',
  'SELECT * FROM user NATURAL JOIN (SELECT 1 AS id)',
  'SELECT max(age), name FROM user',
  'SELECT * FROM user WHERE 0',
  'PRAGMA table_info(user)',
  "SELECT * FROM pragma_table_xinfo('post')",
  'PRAGMA foreign_key_list(post)',
  'PRAGMA index_list(post)',
  'EXPLAIN QUERY PLAN SELECT * FROM user WHERE id = 1',
  "INSERT INTO user(name, age) VALUES ('Dora', 5) RETURNING *",
  "INSERT INTO user(id, name) VALUES (1, 'Eve') ON CONFLICT(id) DO UPDATE SET name = excluded.name || '!' RETURNING id, name AS n, upper(name), age + 1",
  'UPDATE user SET age = coalesce(age, 0) + 1 WHERE id < 3 RETURNING id, age, (SELECT count(*) FROM post WHERE user_id = user.id)',
  'UPDATE user SET weight = p.n FROM (SELECT user_id, count(*) AS n FROM post GROUP BY 1) AS p WHERE p.user_id = user.id RETURNING weight',
  "REPLACE INTO pair VALUES (1, 'x') RETURNING a, b",
  "WITH x AS (SELECT 'q' AS v) INSERT INTO pair SELECT v, v FROM x RETURNING *, 1 + 1, 'text', x'00'",
  'DELETE FROM user WHERE id = 3 RETURNING "odd ""name", name -- gone',
  'SELECT * FROM post',
  'SELECT * FROM nope',
  'SELECT nope FROM user',
  'SELECT user.nope FROM user',
  'SELECT id FROM user, post',
  'SELECT nope(1)',
  "INSERT INTO user(id, name) VALUES (1, 'again')",
  'INSERT INTO user(name) VALUES (NULL)',
  'INSERT INTO post(user_id) VALUES (999)',
  'INSERT INTO post(nope) VALUES (1)',
  'CREATE TABLE user(a)',
  'CREATE TRIGGER t AFTER INSERT ON nope BEGIN SELECT 1; END',
  'CREATE TRIGGER t AFTER INSERT ON sqlite_nope BEGIN SELECT 1; END',
  'CREATE TRIGGER t AFTER INSERT ON sqlite_schema BEGIN SELECT 1; END',
  'SELECT abs(-9223372036854775808)',
  'SELECT max(1, 2, nope) FROM user',
  'DROP TABLE nope',
  "ALTER TABLE user ADD COLUMN extra TEXT DEFAULT 'e'",
  'SELECT extra FROM user LIMIT 1',
  'PRAGMA user_version = 7',
  'PRAGMA user_version',
  'SAVEPOINT one',
  'ROLLBACK TO one',
  'RELEASE one',
]

describe.skipIf(!hasSqld)('the embedded engine and the real server return the same results', () => {
  const responses = { embedded: new Map<string, unknown>(), sqld: new Map<string, unknown>() }

  beforeAll(async () => {
    await using embedded = await startLocalServer({ dialect: 'sqld' })
    responses.embedded = await runQueries(embedded.url)
    await using sqld = await startSqld()
    responses.sqld = await runQueries(sqld.url)
  })

  test.each(QUERIES)('%s', (sql) => {
    expect(responses.embedded.get(sql)).toEqual(responses.sqld.get(sql))
  })
})

async function runQueries(url: string): Promise<Map<string, unknown>> {
  const setup = await pipeline(url, [{ type: 'sequence', sql: SCHEMA }, close])
  expect(setup.results.map(({ error }) => error)).toEqual([undefined, undefined])
  const requests: WireRequest[] = QUERIES.map((sql) => execute(sql))
  const { results } = await pipeline(url, [...requests, close])
  return new Map(QUERIES.map((sql, index) => [sql, normalize(results[index])]))
}

function normalize(result: unknown): unknown {
  const text = JSON.stringify(result, (key, value: unknown) => {
    if (key === 'rows_read' || key === 'rows_written' || key === 'query_duration_ms') return undefined
    return key === 'replication_index' ? value !== null : value
  })
  return JSON.parse(text) as unknown
}
