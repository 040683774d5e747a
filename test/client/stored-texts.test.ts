import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { close, pipeline } from '../server/wire.ts'

// The limit of SQL texts that a client stores on its stream. Its message is the same on both servers.

const target = inject('target')
const isLocal = target === 'embedded' || target === 'sqld'
let server: LocalServer
beforeAll(async () => {
  if (isLocal) server = await startLocalServer({ backend: target })
})
afterAll(() => server?.close())

test.skipIf(!isLocal).each([
  [5_001, '5.0 KB'],
  [5_050, '5.0 KB'],
  [5_250, '5.2 KB'],
  [5_350, '5.3 KB'],
  [5_750, '5.8 KB'],
  [999_950, '1000.0 KB'],
  [1_000_000, '1000.0 KB'],
  [1_250_000, '1.2 MB'],
  [1_350_000, '1.4 MB'],
  [12_345_678, '12.3 MB'],
])('the size of a text of %i bytes is reported as %s', async (bytes, size) => {
  const text = { type: 'store_sql', sql_id: 1, sql: '-'.repeat(bytes) }
  const message = `The statement is too large to be stored: ${size}/5.0 KB`
  const { results } = await pipeline(server.url, [text, close])
  expect(results).toMatchObject([{ error: { message } }, { type: 'ok' }])
})
