import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { buildClientResponse, decodeBody, rebuildBody } from './rebuild.ts'

const headers = { 'content-type': 'application/json', 'content-length': '2', server: 'sqld' }

test('a streamed response keeps its length, and only the headers that are meant for clients', async () => {
  const { headers: kept } = await buildClientResponse({
    status: 200,
    headers,
    body: Readable.from([Buffer.from('{}')]),
  })
  expect(kept).toEqual({ 'content-type': 'application/json', 'content-length': '2' })
})

test('omits the length of a response that was read completely, because it is set when the response is sent', async () => {
  const body = Buffer.from('{}')
  const responses = [
    { status: 200, headers, body },
    { status: 404, headers, body },
    // becomes text, in which names replace ids
    { status: 404, headers, body: Readable.from([body]) },
  ]
  for (const response of responses)
    expect((await buildClientResponse(response)).headers).not.toHaveProperty('content-length')
})

const RULES = {
  mayWrite: true,
  blockReads: false,
  isSchema: false,
  resolveName: () => undefined,
  hadAttached: false,
}

/** Whether the stream of requests has another database attached after them. */
const attaches = (requests: readonly object[]): boolean =>
  rebuildBody(decodeBody('/v3/pipeline', JSON.stringify({ requests })), RULES).hasAttached

test.each<[string, (sql: string) => object]>([
  ['execute', (sql) => ({ stmt: { sql } })],
  ['batch', (sql) => ({ batch: { steps: [{ stmt: { sql } }] } })],
  ['sequence', (sql) => ({ sql })],
  ['describe', (sql) => ({ sql })],
  ['store_sql', (sql) => ({ sql, sql_id: 1 })],
])('a request of type `%s` attaches a database only if its SQL does', (type, build) => {
  expect(attaches([{ type, ...build('attach "other" as o') }])).toBe(true)
  expect(
    attaches([
      { type, ...build('select 1') },
      { type: 'sequence', sql_id: 1 },
    ]),
  ).toBe(false)
})
