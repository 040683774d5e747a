import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
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
