import { request } from 'node:http'
import { expect, test, vi } from 'vitest'
import { query } from '../../../../test/server/wire.ts'
import { hasSqld } from '../../../../test/support/has-sqld.ts'
import { serveHttp } from '../../../../test/support/serve-http.ts'
import { startLocalServer } from './server.ts'
import { type LogLevel, ServerLog } from './server-log.ts'

interface Line {
  readonly time: string
  readonly level: string
  readonly event: string
  readonly path?: string
  readonly status?: number
  readonly isCutOff?: boolean
}

/** Returns the lines that are written to standard error until the test ends. */
function captureLines(): readonly string[] {
  const lines: string[] = []
  vi.spyOn(console, 'error').mockImplementation((line: string) => void lines.push(line))
  return lines
}

/** Returns the log lines of a server with the given log level. */
async function collectLog(
  log: LogLevel,
  sendRequests: (urls: { url: string; platform: string; token: string }) => Promise<unknown>,
) {
  const lines = captureLines()
  const server = await startLocalServer({ log, platform: {} })
  const token = await server.createToken('default')
  await sendRequests({ url: server.url, platform: server.platform?.url ?? '', token })
  await server.close()
  expect(lines.join('\n')).not.toContain(token)
  return lines.map((line) => JSON.parse(line) as Line)
}

const summarize = (lines: readonly Line[]): unknown[] =>
  lines.map(({ level, event, path, status }) => [level, event, ...(path === undefined ? [] : [path, status])])

const sendRequests: Parameters<typeof collectLog>[1] = async ({ url, platform, token }) => {
  const headers = { authorization: `Bearer ${token}` }
  await fetch(`${url}/v2/pipeline`, { method: 'POST', headers, body: '{"requests":[]}' })
  await fetch(`${url}/v2/pipeline?token=${token}`, { method: 'POST', body: '{"requests":[]}' })
  await fetch(`${platform}/v1/organizations`, { headers })
}

test('level requests logs all requests, starts and stops, without tokens', async () => {
  const lines = await collectLog('requests', sendRequests)
  expect(summarize(lines)).toEqual([
    ['info', 'start'],
    ['info', 'request', '/v2/pipeline', 200],
    ['warn', 'request', '/v2/pipeline', 401],
    ['warn', 'request', '/v1/organizations', 401],
    ['info', 'stop'],
  ])
  expect(lines[1]).toMatchObject({
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    listener: 'databases',
    method: 'POST',
    durationMs: expect.any(Number),
    remoteAddress: '127.0.0.1',
  })
})

test('an absolute request target is logged as its path, without host and password', async () => {
  const sendRequest = (url: string, path: string) =>
    new Promise<void>((resolve, reject) => {
      const clientRequest = request(url, { path }, (response) => response.resume().on('end', resolve))
      clientRequest.on('error', reject).end()
    })
  const lines = await collectLog('requests', async ({ url, token }) => {
    await sendRequest(url, `${url}/version?token=${token}`)
    await sendRequest(url, `${url.replace('//', `//user:${token}@`)}/version`)
    await sendRequest(url, url)
  })
  expect(summarize(lines)).toEqual([
    ['info', 'start'],
    ['info', 'request', '/version', 200],
    ['info', 'request', '/version', 400],
    ['info', 'request', '/', 404],
    ['info', 'stop'],
  ])
})

test('level errors logs failed and rejected requests, starts and stops', async () => {
  expect(summarize(await collectLog('errors', sendRequests))).toEqual([
    ['info', 'start'],
    ['warn', 'request', '/v2/pipeline', 401],
    ['warn', 'request', '/v1/organizations', 401],
    ['info', 'stop'],
  ])
})

test('level none, the default, logs nothing', async () => {
  expect(await collectLog('none', sendRequests)).toEqual([])
})

test('logs a server failure as an error, marks a disconnected client as aborted, and escapes line breaks in paths', async () => {
  const lines: string[] = []
  const log = new ServerLog('errors', (line) => lines.push(line))
  const { http, url } = await serveHttp((_, outgoing) => {
    outgoing.statusCode = 503
    outgoing.write('x')
    setImmediate(() => outgoing.destroy())
  })
  log.watch(http, 'databases')
  await fetch(`${url}/a%0Ab?secret`)
    .then((response) => response.text())
    .catch(() => {})
  await expect.poll(() => lines).toHaveLength(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'error',
    path: '/a%0Ab',
    status: 503,
    isCutOff: true,
  })
})

test.skipIf(!hasSqld)(
  'logs a dump that libsql-server ends early, and none that a client abandons',
  async () => {
    const lines = captureLines()
    await using server = await startLocalServer({ backend: 'sqld', log: 'errors' })
    const sqls = [
      'CREATE TABLE large (x)',
      'INSERT INTO large SELECT randomblob(200000) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8))',
    ]
    for (const sql of sqls) await query(server.url, sql)
    const abandoned = await fetch(`${server.url}/dump`)
    await abandoned.body?.cancel()
    // libsql-server cannot dump a table with such a name
    await query(server.url, 'CREATE TABLE "a""b" (x)')
    const dump = await fetch(`${server.url}/dump`)
    await expect(dump.text()).rejects.toThrow()
    const isFailure = (line: string): boolean => line.includes('"failure"')
    await expect.poll(() => lines.filter(isFailure)).toHaveLength(1)
    expect(JSON.parse(lines.find(isFailure) ?? '')).toMatchObject({
      level: 'error',
      database: 'default',
      details: expect.stringMatching(/^the response to \/dump was cut off: ./),
    })
  },
)

test('logs why a cursor of the embedded server ends early', async () => {
  const lines = captureLines()
  await using server = await startLocalServer({ log: 'errors' })
  const steps = [{ stmt: { sql: "SELECT CAST(x'ff' AS TEXT)" } }]
  const body = JSON.stringify({ batch: { steps } })
  const response = await fetch(`${server.url}/v3/cursor`, { method: 'POST', body })
  await expect(response.text()).rejects.toThrow()
  await expect
    .poll(() => lines.find((line) => line.includes('"failure"')))
    .toContain('invalid utf-8 sequence')
})

test('an unknown level is rejected', async () => {
  await expect(startLocalServer({ log: 'debug' as LogLevel })).rejects.toThrow(
    "startLocalServer: log must be 'none' or 'errors' or 'requests', not 'debug'",
  )
})
