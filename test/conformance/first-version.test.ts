// The routes of the protocol's first version: the same questions to libsql-server itself, and to both back ends.
import { startLocalServer } from '@batonsql/local-server'
import { findSqld, startSqld } from '@batonsql/local-server/sqld'
import { describe, expect, test } from 'vitest'

const hasSqld = await findSqld().then(
  () => true,
  () => false,
)

const statements = (...list: readonly unknown[]): readonly [string, string] => [
  '/',
  JSON.stringify({ statements: list }),
]

/** Each the next request to the same database. */
const REQUESTS: readonly (readonly [path: string, body: string])[] = [
  statements('CREATE TABLE t (a, b)', 'INSERT INTO t VALUES (1, 2)', 'SELECT * FROM t'),
  statements({ q: 'SELECT ?, ?, ?, ?, ?', params: [1.5, 'x', null, { base64: 'AP8' }, true] }),
  statements({ q: 'SELECT :a, @b, $c', params: { a: 1, '@b': 2, $c: 'x' } }),
  ['/', '{"statements":[{"q":"SELECT typeof(?), typeof(?), ?","params":[1.0,1,-0.0]}]}'],
  ['/', '{"statements":[{"q":"SELECT ?, ?","params":[9223372036854775808,18446744073709551616]}]}'],
  statements("SELECT 9223372036854775807, 1.0, 1e20, 9e999, -0.0, x'00ff', 'a\n\"b', null, 1 AS d, 2 AS d"),
  statements('SELECT 1', 'SELECT missing', 'SELECT 3'),
  statements({ q: 'SELECT ?', params: [] }),
  statements({ q: 'SELECT ?', params: [1, 2] }),
  statements('SELECT 1', '', 'SELECT 2'),
  statements(),
  statements('BEGIN', 'INSERT INTO t VALUES (8, 8)', 'COMMIT'),
  statements('BEGIN', 'INSERT INTO t VALUES (9, 9)'),
  statements('SAVEPOINT a', 'RELEASE a'),
  statements('SELECT 1; SELECT 2'),
  statements('SELECT 1', 'foo bar'),
  statements('SELECT zeroblob(4900000), zeroblob(4900000), zeroblob(400000)'),
  statements('SELECT a FROM t'),
  ['/', '{}'],
  statements(1),
  statements({ sql: 'SELECT 1' }),
  statements({ q: 'SELECT ?', params: null }),
  statements({ q: 'SELECT ?', params: [[1]] }),
  ['/v1/execute', '{"stmt":{"sql":"SELECT ?, ?","args":[{"type":"float","value":-0.0},{"type":"null"}]}}'],
  ['/v1/execute', '{"stmt":{"sql":"INSERT INTO t VALUES (3, 3)"}}'],
  ['/v1/execute', '{"stmt":{"sql":"SELECT missing"}}'],
  ['/v1/execute', '{"stmt":{"sql":"SELECT 1"},"type":"sequence","sql":"SELECT 2"}'],
  ['/v1/execute', '{"stmt":{"sql":"BEGIN"}}'],
  ['/v1/execute', '{"stmt":{"sql_id":1}}'],
  ['/v1/execute', '{"stmt":{}}'],
  ['/v1/execute', '{}'],
  [
    '/v1/batch',
    '{"batch":{"steps":[{"stmt":{"sql":"SELECT missing"}},{"stmt":{"sql":"SELECT 2"},"condition":{"type":"ok","step":0}}]}}',
  ],
  ['/v1/batch', '{"batch":{"steps":[{"stmt":{"sql":"SELECT 1"}},{"stmt":{"sql":"foo bar"}}]}}'],
  [
    '/v1/batch',
    '{"batch":{"steps":[{"stmt":{"sql":"BEGIN"}},{"stmt":{"sql":"INSERT INTO t VALUES (4, 4)"}}]}}',
  ],
  ['/v1/batch', '{"batch":{"steps":[{"stmt":{"sql":"SELECT 1"},"condition":{"type":"is_autocommit"}}]}}'],
  ['/v1/batch', '{"batch":{"steps":[{"stmt":{"sql":"SELECT 1"},"condition":{"type":"ok","step":1}}]}}'],
  ['/v1/batch', '{"batch":{"steps":[{"stmt":{"sql_id":1}}]}}'],
  statements('SELECT a FROM t'),
]

async function answersOf(url: string): Promise<string[]> {
  const answers: string[] = []
  for (const [path, body] of REQUESTS) {
    const response = await fetch(url + path, { method: 'POST', body, headers: { connection: 'close' } })
    const text = (await response.text())
      .replaceAll(/"query_duration_ms":[0-9.e-]+|"rows_(?:read|written)":\d+,/g, '')
      .replaceAll(/"replication_index":(?:"\d+"|null)/g, 'replication index')
      .replace(/ at line 1 column \d+/, '')
    answers.push(`${path} ${body.slice(0, 200)} → ${response.status} ${text}`)
  }
  return answers
}

describe.runIf(hasSqld)('as libsql-server answers', () => {
  test.each(['embedded', 'sqld'] as const)('the back end %s answers', async (backend) => {
    await using real = await startSqld()
    await using server = await startLocalServer({ backend })
    expect(await answersOf(server.url)).toEqual(await answersOf(real.url))
  })
})

test('a transaction that fails is undone, and its answer is JSON, which it is not there', async () => {
  await using server = await startLocalServer()
  const send = async (...list: string[]): Promise<unknown> => {
    const response = await fetch(server.url, { method: 'POST', body: JSON.stringify({ statements: list }) })
    return await response.json()
  }
  await send('CREATE TABLE t (a)')
  expect(await send('BEGIN', 'INSERT INTO t VALUES (1)', 'SELECT missing', 'COMMIT')).toMatchObject([
    { results: {} },
    { results: {} },
    { error: 'no such column: missing in SELECT missing at offset 7' },
    null,
  ])
  expect(await send('SELECT a FROM t')).toMatchObject([{ results: { rows: [] } }])
})

test('rights hold: without a token nothing is read, and a read-only one cannot write', async () => {
  await using server = await startLocalServer({ auth: true })
  const token = await server.createToken('default', { access: 'read-only' })
  const send = async (
    path: string,
    body: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<number> => (await fetch(server.url + path, { method: 'POST', body, headers })).status
  const authorization = `Bearer ${token}`
  for (const path of ['/', '/v1/execute', '/v1/batch']) expect(await send(path, 'no JSON')).toBe(401)
  expect(await send('/', '{"statements":["SELECT 1"]}', { authorization })).toBe(200)
  expect(await send('/', '{"statements":["CREATE TABLE t (a)"]}', { authorization })).toBe(403)
  expect(await send('/v1/execute', '{"stmt":{"sql":"CREATE TABLE t (a)"}}', { authorization })).toBe(403)
})
