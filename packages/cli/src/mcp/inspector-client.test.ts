import { startLocalServer } from '@batonsql/local-server'
import { expect, test, vi } from 'vitest'
import { serveHttp } from '../../../../test/support/serve-http.ts'
import { InspectorClient } from './inspector-client.ts'

test.each(['localhost', '127.0.0.1', 'app.localhost', 'a.b.localhost'])(
  'reads the inspector of a database at %s',
  async (host) => {
    await using server = await startLocalServer({ inspector: true })
    const client = InspectorClient.forUrl(`http://${host}:${new URL(server.url).port}/app/`)
    await expect.poll(() => client?.read().model).toBeDefined()
    client?.close()
  },
)

test.each(['https://localhost', 'http://localhost.example', 'http://notlocalhost', 'http://10.0.0.1'])(
  'does not connect to %s',
  (url) => expect(InspectorClient.forUrl(url)).toBeNull(),
)

test('begins anew if it has missed events, because they may have contained responses', async () => {
  const request = {
    type: 'request',
    at: 1,
    database: 'app',
    stream: 1,
    statements: [{ effects: ['begin-write'] }],
  }
  let send = (..._events: readonly object[]): unknown => null
  const { url } = await serveHttp((_request, response) => {
    send = (...events) => response.write(`data: ${JSON.stringify(events)}\n\n`)
    send({ type: 'hello' }, { ...request, n: 1 })
  })
  const client = InspectorClient.forUrl(url)
  const numbers = () => [...(client?.read().model.requests.keys() ?? [])]
  await expect.poll(numbers).toEqual([1])
  vi.spyOn(Date, 'now').mockReturnValue(9e12)
  send({ type: 'missed', count: 1 }, { ...request, n: 3 })
  await expect.poll(numbers).toEqual([3])
  expect(client?.read().since).toBe(9e12)
  client?.close()
})
