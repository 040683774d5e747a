import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { buildClientResponse } from './build-client-response.ts'

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
