import { createClient } from '@batonsql/core'
import { expect, test } from 'vitest'
import { Scene } from './platform-scene.ts'

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

test('reports requests, usage and the process in the Prometheus format', async () => {
  const scene = await Scene.forTest()
  const { host } = await scene.create('orders')
  const authToken = await scene.tokenFor('orders')
  await using db = createClient({ url: `http://${host}`, authToken })
  await db.batch(['create table t (a)', 'insert into t values (1), (2), (3)'])
  const read = async (): Promise<string> => {
    const response = await fetch(`${scene.platform.url}/metrics`, {
      headers: { authorization: `Bearer ${scene.platform.token}` },
    })
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4',
    ])
    return await response.text()
  }
  const label = '{database="orders",group="default"}'
  // otherwise, the server would count it only in a few seconds
  await scene.done('GET', `${scene.own}/databases/orders/usage`)
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
  const scene = await Scene.forTest()
  const getStatus = async (token: string | null, method = 'GET'): Promise<number> =>
    (await scene.sendRequest(method, '/metrics', { token }).catch(() => ({ status: 200 }))).status
  expect(await getStatus(null)).toBe(401)
  expect(await getStatus('nonsense')).toBe(401)
  const organizationToken = await scene.mint('narrow', { organization: scene.platform.organization })
  expect(await getStatus(organizationToken)).toBe(403)
  const metricsToken = await scene.mint('prometheus', { scopes: ['metrics'] })
  expect(await getStatus(metricsToken)).toBe(200)
  for (const [method, path] of [
    ['GET', '/v1/organizations'],
    ['GET', `${scene.own}/databases`],
    ['POST', `${scene.own}/databases`],
    ['GET', '/v1/auth/validate'],
    ['GET', '/v1/auth/api-tokens'],
    ['POST', '/v1/auth/api-tokens/more'],
    ['DELETE', '/v1/auth/api-tokens/prometheus'],
  ] as const)
    expect([
      path,
      (
        await scene.sendRequest(method, path, {
          token: metricsToken,
          body: method === 'POST' ? {} : undefined,
        })
      ).status,
    ]).toEqual([path, 403])
  const createBody = (scopes: string[], restriction = {}) => ({ body: { scopes, ...restriction } })
  for (const request of [
    createBody(['metrics', 'read']),
    createBody(['read']),
    createBody(['metrics'], { organization: scene.platform.organization }),
    createBody(['metrics'], { organization: scene.platform.organization, group: 'default' }),
  ])
    expect((await scene.sendRequest('POST', '/v1/auth/api-tokens/wide', request)).status).toBe(400)
  const otherToken = await scene.platform.createUser({ username: 'ada' })
  const request = { token: otherToken, ...createBody(['metrics']) }
  expect((await scene.sendRequest('POST', '/v1/auth/api-tokens/theirs', request)).status).toBe(403)
  await scene.done('DELETE', '/v1/auth/api-tokens/prometheus')
  expect(await getStatus(metricsToken)).toBe(401)
  expect(await getStatus(scene.platform.token, 'POST')).toBe(405)
  expect(await getStatus(scene.platform.token)).toBe(200)
})
