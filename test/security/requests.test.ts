// Sends generated requests, valid, invalid and malicious ones, to the embedded server. No response may report a server failure,
// and the server must still work afterwards. FUZZ_REQUESTS sets the number of requests, TEST_SEED repeats a run.
import http from 'node:http'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { SEED, seeded } from '../support/random.ts'
import { type GeneratedRequest, generateRequest } from './generated-requests.ts'
import { SCHEMA } from './generated-statements.ts'

const REQUEST_COUNT = Number(process.env['FUZZ_REQUESTS'] ?? 1_000)
const CONCURRENCY = 8
/** How long to wait for a response. A transaction may hold the write lock for 5 s, and several may be queued. */
const MAX_WAIT_MS = 60_000
const LISTEN_MS = 30
/** Requests for which libsql-server also returns 500. */
const KNOWN_FAILURES = [
  /could not be parsed/,
  /utf-?8/i,
  /SQL string does not contain any statement/,
  /SQL string contains more than one statement/,
  /Arguments do not match SQL parameters/,
  /Specifying both positional and named arguments is not supported/,
]
const EXPECTED_STATUSES = new Set([200, 400, 401, 403, 404, 405, 413, 415, 429])

interface TestResponse {
  readonly status: number
  readonly body: string
}

const agent = new http.Agent({ keepAlive: true, maxSockets: CONCURRENCY })

async function send(
  server: LocalServer,
  { method, path, headers, body }: GeneratedRequest,
): Promise<TestResponse> {
  return await new Promise((resolve, reject) => {
    const request = http.request(
      { host: '127.0.0.1', port: server.port, method, path, headers, agent, timeout: MAX_WAIT_MS },
      (response) => {
        const parts: Buffer[] = []
        const finish = (): void =>
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts).toString('utf8') })
        response.on('data', (part: Buffer) => parts.push(part))
        response.on('end', finish)
        response.on('error', finish) // a truncated stream, such as a cursor over text that is not UTF-8
        if (path.includes('listen') && response.statusCode === 200)
          setTimeout(() => {
            finish()
            request.destroy()
          }, LISTEN_MS)
      },
    )
    request.on('timeout', () => request.destroy(new Error(`no response to ${method} ${path} ${body}`)))
    request.on('error', reject)
    request.end(body)
  })
}

async function startServer(): Promise<LocalServer> {
  const server = await startLocalServer()
  await server.createDatabase('app')
  await server.createDatabase('other', { allowAttach: true })
  await server.createDatabase('parent', { isSchema: true })
  await server.createDatabase('kid', { schema: 'parent' })
  for (const name of ['app', 'other', 'parent'])
    await runBatch(server, name, SCHEMA.slice(0, name === 'parent' ? 2 : undefined))
  return server
}

async function runBatch(
  server: LocalServer,
  database: string,
  statements: readonly string[],
): Promise<TestResponse> {
  const steps = statements.map((sql) => ({ stmt: { sql } }))
  const body = JSON.stringify({ requests: [{ type: 'batch', batch: { steps } }, { type: 'close' }] })
  return await send(server, { method: 'POST', path: `/${database}/v3/pipeline`, headers: {}, body })
}

function describeUnexpectedResponse(
  request: GeneratedRequest,
  { status, body }: TestResponse,
): string | null {
  if (EXPECTED_STATUSES.has(status)) return null
  if (status === 500 && KNOWN_FAILURES.some((failure) => failure.test(body))) return null
  return `${status} ${body.slice(0, 300)} to ${request.method} ${request.path} ${JSON.stringify(request.headers)} ${request.body?.slice(0, 1_000)}`
}

test(`${REQUEST_COUNT} generated requests (TEST_SEED=${SEED})`, {
  timeout: 120_000 + REQUEST_COUNT * 100,
}, async () => {
  await using server = await startServer()
  const random = seeded(SEED)
  let batons: string[] = []
  const findings: string[] = []
  const statusCounts = new Map<number, number>()
  let remaining = REQUEST_COUNT
  const worker = async (): Promise<void> => {
    while (remaining > 0 && findings.length < 5) {
      remaining -= 1
      const request = generateRequest(random, batons)
      const reply = await send(server, request)
      statusCounts.set(reply.status, (statusCounts.get(reply.status) ?? 0) + 1)
      const finding = describeUnexpectedResponse(request, reply)
      if (finding !== null) findings.push(finding)
      const baton = /"baton":"([^"]+)"/.exec(reply.body)?.[1]
      if (baton !== undefined) batons = [...batons.slice(-20), baton]
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  console.log(
    `requests: ${JSON.stringify({ seed: SEED, ...Object.fromEntries(statusCounts), rssMb: Math.round(process.memoryUsage.rss() / 1e6) })}`,
  )
  expect(findings).toEqual([])
  // every kind of response occurred
  for (const status of [200, 400, 404, 405])
    expect(statusCounts.get(status) ?? 0, `status ${status}`).toBeGreaterThan(0)
  for (const name of ['app', 'other', 'kid'])
    expect(
      await runBatch(server, name, [
        'create table if not exists still_well(a)',
        'select count(*) from still_well',
      ]),
    ).toMatchObject({ status: 200, body: expect.not.stringContaining('"code"') })
})
