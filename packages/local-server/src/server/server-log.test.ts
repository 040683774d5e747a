import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
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

/** Returns the log of a server with this level. */
async function logged(
  log: LogLevel,
  act: (urls: { url: string; platform: string; token: string }) => Promise<unknown>,
) {
  const lines: string[] = []
  const spy = vi.spyOn(console, 'error').mockImplementation((line: string) => void lines.push(line))
  onTestFinished(() => spy.mockRestore())
  const server = await startLocalServer({ log, platform: {} })
  const token = await server.createToken('default')
  await act({ url: server.url, platform: server.platform?.url ?? '', token })
  await server.close()
  expect(lines.join('\n')).not.toContain(token)
  return lines.map((line) => JSON.parse(line) as Line)
}

const seen = (lines: readonly Line[]): unknown[] =>
  lines.map(({ level, event, path, status }) => [level, event, ...(path === undefined ? [] : [path, status])])

const act = async ({
  url,
  platform,
  token,
}: {
  url: string
  platform: string
  token: string
}): Promise<void> => {
  const headers = { authorization: `Bearer ${token}` }
  await fetch(`${url}/v2/pipeline`, { method: 'POST', headers, body: '{"requests":[]}' })
  await fetch(`${url}/v2/pipeline?token=${token}`, { method: 'POST', body: '{"requests":[]}' })
  await fetch(`${platform}/v1/organizations`, { headers: { authorization: `Bearer ${token}` } })
}

test('requests: all requests, starts and stops, without tokens', async () => {
  const lines = await logged('requests', act)
  expect(seen(lines)).toEqual([
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
      const sent = request(url, { path }, (response) => response.resume().on('end', resolve))
      sent.on('error', reject).end()
    })
  const lines = await logged('requests', async ({ url, token }) => {
    await sendRequest(url, `${url}/version?token=${token}`)
    await sendRequest(url, `${url.replace('//', `//user:${token}@`)}/version`)
    await sendRequest(url, url)
  })
  expect(seen(lines)).toEqual([
    ['info', 'start'],
    ['info', 'request', '/version', 200],
    ['info', 'request', '/version', 400],
    ['info', 'request', '/', 404],
    ['info', 'stop'],
  ])
})

test('errors: failed or rejected requests, and starts and stops', async () => {
  expect(seen(await logged('errors', act))).toEqual([
    ['info', 'start'],
    ['warn', 'request', '/v2/pipeline', 401],
    ['warn', 'request', '/v1/organizations', 401],
    ['info', 'stop'],
  ])
})

test('none, the default, logs nothing', async () => {
  expect(await logged('none', act)).toEqual([])
})

test('a server failure is an error, a disconnected client is marked as aborted, and a path cannot start a new line', async () => {
  const lines: string[] = []
  const log = new ServerLog('errors', (line) => lines.push(line))
  const http = createServer((_, to) => {
    to.statusCode = 503
    to.write('x')
    setImmediate(() => to.destroy())
  })
  onTestFinished(() => void http.close())
  log.watch(http, 'databases')
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const { port } = http.address() as AddressInfo
  await fetch(`http://127.0.0.1:${port}/a%0Ab?secret`)
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

test('an unknown level is rejected', async () => {
  await expect(startLocalServer({ log: 'debug' as LogLevel })).rejects.toThrow(
    'startLocalServer: log must be one of none, errors, requests, not debug',
  )
})
