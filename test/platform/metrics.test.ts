import { createClient } from '@batonsql/core'
import { expect, test } from 'vitest'
import { Harness } from './platform-harness.ts'

/** Returns the values of a metric by its labels, as Prometheus reads them. */
function parseMetric(text: string, name: string): Map<string, number> {
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith(name) && /^[{ ]/.test(line.slice(name.length)))
  return new Map(
    lines.map((line) => {
      const separatorIndex = line.lastIndexOf(' ')
      return [line.slice(name.length, separatorIndex), Number(line.slice(separatorIndex + 1))]
    }),
  )
}

test('reports requests, usage and process statistics in the Prometheus format', async () => {
  const harness = await Harness.forTest()
  const { host } = await harness.createDatabase('orders')
  const authToken = await harness.tokenFor('orders')
  await using db = createClient({ url: `http://${host}`, authToken })
  await db.batch(['create table t (a)', 'insert into t values (1), (2), (3)'])
  const read = async (): Promise<string> => {
    const response = await fetch(`${harness.platform.url}/metrics`, {
      headers: { authorization: `Bearer ${harness.platform.token}` },
    })
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4',
    ])
    return await response.text()
  }
  const label = '{database="orders",group="default"}'
  // makes the server count the rows now instead of within a few seconds
  await harness.requestOk('GET', 'databases/orders/usage')
  const text = await read()
  expect(parseMetric(text, 'baton_rows_written_total').get(label)).toBeGreaterThan(2)
  expect(parseMetric(text, 'baton_requests_total').get(label)).toBe(1)
  expect(parseMetric(text, 'baton_requests_failed_total').get(label)).toBe(0)
  expect(parseMetric(text, 'baton_request_seconds_total').get(label)).toBeGreaterThan(0)
  expect(parseMetric(text, 'process_resident_memory_bytes').get('')).toBeGreaterThan(1e7)
  // each line is a comment or a sample
  for (const line of text.trimEnd().split('\n'))
    expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{[^{}]*\})? [\d.e+-]+)$/)
})

test('requires a metrics token or an unrestricted token of the owner; a metrics token is valid for nothing else', async () => {
  const harness = await Harness.forTest()
  const getStatus = async (token: string | null, method = 'GET'): Promise<number> =>
    (await harness.sendRequest(method, '/metrics', { token }).catch(() => ({ status: 200 }))).status
  expect(await getStatus(null)).toBe(401)
  expect(await getStatus('nonsense')).toBe(401)
  const organizationToken = await harness.createApiToken('narrow', {
    organization: harness.platform.organization,
  })
  expect(await getStatus(organizationToken)).toBe(403)
  const metricsToken = await harness.createApiToken('prometheus', { scopes: ['metrics'] })
  expect(await getStatus(metricsToken)).toBe(200)
  for (const [method, path] of [
    ['GET', '/v1/organizations'],
    ['GET', 'databases'],
    ['POST', 'databases'],
    ['GET', '/v1/auth/validate'],
    ['GET', '/v1/auth/api-tokens'],
    ['POST', '/v1/auth/api-tokens/more'],
    ['DELETE', '/v1/auth/api-tokens/prometheus'],
  ] as const)
    expect([
      path,
      await harness.statusOf(method, path, { token: metricsToken, body: method === 'POST' ? {} : undefined }),
    ]).toEqual([path, 403])
  const createBody = (scopes: string[], restriction = {}) => ({ body: { scopes, ...restriction } })
  for (const request of [
    createBody(['metrics', 'read']),
    createBody(['read']),
    createBody(['metrics'], { organization: harness.platform.organization }),
    createBody(['metrics'], { organization: harness.platform.organization, group: 'default' }),
  ])
    expect(await harness.statusOf('POST', '/v1/auth/api-tokens/wide', request)).toBe(400)
  const otherToken = await harness.platform.createUser({ username: 'ada' })
  const request = { token: otherToken, ...createBody(['metrics']) }
  expect(await harness.statusOf('POST', '/v1/auth/api-tokens/theirs', request)).toBe(403)
  await harness.requestOk('DELETE', '/v1/auth/api-tokens/prometheus')
  expect(await getStatus(metricsToken)).toBe(401)
  expect(await getStatus(harness.platform.token, 'POST')).toBe(405)
  expect(await getStatus(harness.platform.token)).toBe(200)
})
