// Which answers are compressed, and how: the same questions to both servers.
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Readable, Transform } from 'node:stream'
import { text as streamText } from 'node:stream/consumers'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { findSqld, startSqld } from '@batonsql/local-server/sqld'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const hasSqld = await findSqld().then(
  () => true,
  () => false,
)

/** Header → what comes. */
const WANTED: readonly (readonly [string | undefined, string | undefined])[] = [
  [undefined, undefined],
  ['', undefined],
  ['gzip', 'gzip'],
  ['br', 'br'],
  ['deflate', 'deflate'],
  ['zstd', undefined],
  ['identity', undefined],
  ['*', undefined],
  ['gzip, deflate, br', 'gzip'],
  ['br, gzip, deflate', 'br'],
  ['deflate, gzip', 'deflate'],
  ['gzip;q=0.5, br;q=0.8', 'br'],
  ['gzip;q=0.8, br;q=0.5', 'gzip'],
  ['gzip;q=1.0, br', 'gzip'],
  ['*;q=0, gzip', 'gzip'],
  ['identity, gzip;q=0.5', undefined],
  ['identity;q=0.5, gzip', 'gzip'],
  ['zstd, gzip', 'gzip'],
  ['GZIP', 'gzip'],
  ['gzip ; q=0.001', 'gzip'],
  ['gzip;q=0', undefined],
  ['gzip;q=0.000', undefined],
  ['gzip;q=0.1234', undefined],
  ['gzip;q=2', undefined],
  ['gzip;q=abc', undefined],
  ['gzip;level=1', undefined],
  ['x-gzip', undefined],
]

const SELECT_1 = '{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}},{"type":"close"}]}'

interface Answer {
  readonly encoding: string | undefined
  readonly body: Readable
}

function ask(url: string, route: string, accepted: string | undefined): Promise<Answer> {
  const [method = '', path, body] = route.split(' ')
  const headers = { host: 'localhost', ...(accepted !== undefined && { 'accept-encoding': accepted }) }
  return new Promise((resolve, reject) => {
    const request = http.request(url + path, { method, headers, agent: false }, (response) =>
      resolve({ encoding: response.headers['content-encoding'], body: response }),
    )
    request.on('error', reject)
    request.end(body === 'select' ? SELECT_1 : body)
  })
}

interface Running extends AsyncDisposable {
  readonly url: string
}

const START: Readonly<Record<string, () => Promise<Running>>> = {
  embedded: () => startLocalServer(),
  ...(hasSqld && { sqld: () => startSqld() }),
}

describe.each(Object.keys(START))('%s', (name) => {
  let server: Running
  beforeAll(async () => {
    server = await (START[name] as () => Promise<Running>)()
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test.each(WANTED)('accept-encoding: %s → %s', async (accepted, expected) => {
    const { encoding, body } = await ask(server.url, 'POST /v2/pipeline select', accepted)
    expect(encoding).toBe(expected)
    expect(await streamText(decoded(encoding, body))).toContain('"value":"1"')
  })

  test.each([
    ['GET /dump', 'gzip'],
    ['HEAD /dump', 'gzip'],
    ['GET /version', 'gzip'],
    ['GET /v2', 'gzip'],
    ['POST /v3/cursor {"batch":{"steps":[]}}', 'gzip'],
    ['POST /v2/pipeline no-json', 'gzip'],
    ['GET /health', undefined],
    ['GET /nothing', undefined],
    ['OPTIONS /v2/pipeline', undefined],
    ['GET /v2/pipeline', undefined],
    ['GET /beta/listen?table=t', undefined],
  ])('%s → %s', async (route, expected) => {
    const { encoding, body } = await ask(server.url, route, 'gzip')
    body.destroy()
    expect(encoding).toBe(expected)
  })
})

test.each(['gzip', 'deflate', 'br'])(
  'a cursor with %s comes piece by piece, and a cut is no end',
  async (encoding) => {
    await using server = await startLocalServer()
    const rows = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c'
    const steps = JSON.stringify({ batch: { steps: [{ stmt: { sql: rows } }] } }).replaceAll(' ', '\\t')
    const { body } = await ask(server.url, `POST /v3/cursor ${steps}`, encoding)
    const pieces = decoded(encoding, body)
    const [first] = (await once(pieces, 'data')) as [Buffer]
    pieces.pause()
    expect(first.toString()).toContain('"baton"')
    const rest = streamText(pieces)
    await Promise.all([expect(rest).rejects.toThrow(), server.close()])
  },
)

test('our own client does not ask for it', async () => {
  const asked: http.IncomingHttpHeaders[] = []
  const recorder = http.createServer(({ headers }, response) => {
    asked.push(headers)
    response.setHeader('content-type', 'application/json')
    const cell =
      '{"cols":[],"rows":[],"affected_row_count":0,"last_insert_rowid":null,"replication_index":null}'
    const result = `{"type":"ok","response":{"type":"execute","result":${cell}}}`
    response.end(
      `{"baton":null,"base_url":null,"results":[${result},{"type":"ok","response":{"type":"close"}}]}`,
    )
  })
  await new Promise<void>((resolve) => recorder.listen(0, '127.0.0.1', resolve))
  const client = createClient({ url: `http://127.0.0.1:${(recorder.address() as AddressInfo).port}` })
  await client.execute('SELECT 1')
  await client.close()
  recorder.close()
  expect(asked.map((headers) => headers['accept-encoding'])).toEqual([undefined])
})

function decoded(encoding: string | undefined, body: Readable): Readable {
  const decoders: Readonly<Record<string, () => Transform>> = {
    gzip: createGunzip,
    deflate: createInflate,
    br: createBrotliDecompress,
  }
  const decoder = encoding === undefined ? null : (decoders[encoding]?.() ?? null)
  if (decoder === null) return body
  body.on('error', (error) => decoder.destroy(error))
  return body.pipe(decoder)
}
