import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { AttackedServer, BACKENDS } from './attacked-server.ts'
import { statuses } from './raw-exchange.ts'

const CLOSE = '{"type":"close"}'
const STEP = '{"stmt":{"sql":"select 1"}}'
const repeat = (item: string, count: number): string => Array.from({ length: count }, () => item).join()
const nest = (depth: number): string => '{"type":"not","cond":'.repeat(depth)

/** The beginning of a batch, of a statement, or of a body, with too many items of one kind. */
const BATCHES: Readonly<Record<string, string>> = {
  steps: `{"steps":[${repeat(STEP, 200_000)}`,
  conditions: `{"steps":[{"stmt":{"sql":"select 1"},"condition":{"type":"or","conds":[${repeat('{"type":"is_autocommit"}', 300_000)}`,
  'nested conditions': `{"steps":[{"stmt":{"sql":"select 1"},"condition":${nest(600_000)}`,
  'conditions of many steps': `{"steps":[${repeat('{"stmt":{"sql":"select 1"},"condition":{"type":"ok","step":0}}', 100_000)}`,
  args: `{"steps":[{"stmt":{"sql":"select 1","args":[${repeat('{"type":"null"}', 300_000)}`,
  'named args': `{"steps":[{"stmt":{"sql":"select 1","named_args":[${repeat('{"name":"a","value":{"type":"null"}}', 200_000)}`,
  'unknown fields': `{"steps":[],"x":[${repeat('0', 600_000)}`,
  arrays: '['.repeat(600_000),
  text: `"${'a'.repeat(65 * 1_024 ** 2)}`,
}
const REQUESTS: Readonly<Record<string, string>> = {
  requests: repeat('{"type":"get_autocommit"}', 300_000),
  'SQL to store': repeat('{"type":"store_sql","sql_id":1,"sql":"select 1"}', 200_000),
  'SQL to close': repeat('{"type":"close_sql","sql_id":1}', 300_000),
  sequences: repeat('{"type":"sequence","sql":"select 1"}', 300_000),
}
const BODIES: readonly (readonly [name: string, path: string, body: string])[] = [
  ...Object.entries(BATCHES).flatMap(([name, batch]) => [
    [name, '/v3/cursor', `{"batch":${batch}`] as const,
    ...['/v2/pipeline', '/v3/pipeline'].map(
      (path) => [name, path, `{"requests":[{"type":"batch","batch":${batch}`] as const,
    ),
  ]),
  ...Object.entries(REQUESTS).map(
    ([name, requests]) => [name, '/v3/pipeline', `{"requests":[${requests}`] as const,
  ),
]

/** Sends the beginning of a request, and returns what the server sends until it closes the connection. */
async function sendBeginning(url: string, path: string, headers: Record<string, string>, body: string) {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const lines = Object.entries({ host: 'app.localhost', ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\ncontent-length: 99999999\r\n\r\n${body}`)
  let received = ''
  socket.on('data', (part) => {
    received += part.toString('latin1')
  })
  socket.on('error', () => {}) // the server may reset the connection after its response
  await new Promise<void>((resolve) => void socket.once('close', () => resolve()))
  return received
}

describe.each(BACKENDS)('%s', (backend) => {
  test('bodies of many small items are rejected while they are received, and others are handled', async () => {
    await using attacked = await AttackedServer.start({ backend, auth: true })
    const token = await attacked.headers('app', 'read-only')
    for (const [index, [name, path, body]] of BODIES.entries()) {
      // the body is read in the same way, whatever its type
      const headers = { ...token, 'content-type': index % 2 === 0 ? 'application/json' : 'text/plain' }
      const received = await sendBeginning(attacked.server.url, path, headers, body)
      expect([name, path, statuses(received)]).toEqual([name, path, [413]])
      const next = await attacked.post('/app/v3/pipeline', `{"requests":[${CLOSE}]}`, headers)
      expect([name, next.status]).toEqual([name, 200])
    }
  })

  test('large batches, long texts and INSERTs of many rows are accepted, again and again', async () => {
    await using attacked = await AttackedServer.start({ backend, auth: false })
    const steps = `{"steps":[${repeat(STEP, 100_000)}]}`
    // words that the guard looks for, in text
    const rows = Array.from({ length: 300_000 }, (_, row) => `(${row},'index; attach ${row}',-2.5)`).join()
    const sequences = [
      `select '${'a'.repeat(4_000_000)}'`,
      `drop table if exists t; create table t (a, b, c); insert into t values ${rows}`,
    ]
    const bodies = [
      `{"type":"batch","batch":${steps}}`,
      ...sequences.map((sql) => JSON.stringify({ type: 'sequence', sql })),
    ]
    for (const round of [1, 2]) {
      for (const body of bodies) {
        const { status, text } = await attacked.post('/app/v3/pipeline', `{"requests":[${body},${CLOSE}]}`)
        expect([round, status, text.includes('"error"')]).toEqual([round, 200, false])
      }
    }
    const count = { type: 'execute', stmt: { sql: 'select count(*), max(b) from t' } }
    const { text } = await attacked.post('/app/v3/pipeline', { requests: [count, { type: 'close' }] })
    expect(text).toContain('"300000"')
  })

  test('a large request that gets 503 because of others was not executed', async () => {
    await using attacked = await AttackedServer.start({ backend, auth: false })
    await attacked.post('/app/v3/pipeline', {
      requests: [{ type: 'execute', stmt: { sql: 'create table t (a, b)' } }, { type: 'close' }],
    })
    const text = 'a'.repeat(40 * 1_024 ** 2)
    const sql = `insert into t values (1, 2) /* ${text} */`
    const body = `{"requests":[{"type":"execute","stmt":{"sql":${JSON.stringify(sql)}}},${CLOSE}]}`
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => attacked.post('/app/v3/pipeline', body)),
    )
    const accepted = answers.filter(({ status }) => status === 200)
    expect(answers.filter(({ status }) => status === 503).length).toBe(8 - accepted.length)
    const count = { type: 'execute', stmt: { sql: 'select count(*) from t' } }
    const counted = await attacked.post('/app/v3/pipeline', { requests: [count, { type: 'close' }] })
    expect(counted.text).toContain(`"${accepted.length}"`)
  })
})
