import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute, pipeline } from '../server/wire.ts'
import { AttackedServer, KINDS } from './attacked-server.ts'
import { sendRaw, statuses } from './raw-exchange.ts'

describe.each(KINDS)('a request is never treated as two: $backend, auth $auth', (kind) => {
  let attacked: AttackedServer
  let port: number
  let authorization: string
  /** The text of a request that an attacker hides in another one. The server must never execute it. */
  let smuggledRequest: string

  beforeAll(async () => {
    attacked = await AttackedServer.start(kind)
    ;({ port } = attacked.server)
    const headers = await attacked.headers()
    authorization = 'authorization' in headers ? `authorization: ${headers.authorization}\r\n` : ''
    const options = 'authorization' in headers ? { token: headers.authorization.slice(7) } : {}
    const creation = await pipeline(attacked.url(), [execute('create table t(a)'), close], options)
    expect(creation.status).toBe(200)
    smuggledRequest = createPost('insert into t values (666)')
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  function createHead(line: string, headers = ''): string {
    return `${line} HTTP/1.1\r\nhost: 127.0.0.1\r\n${authorization}${headers}\r\n`
  }

  function createBody(sql: string): string {
    return JSON.stringify({ requests: [execute(sql), close] })
  }

  function createPost(sql: string, headers = ''): string {
    const body = createBody(sql)
    return `${createHead('POST /app/v2/pipeline', `${headers}content-length: ${body.length}\r\n`)}${body}`
  }

  /** Sends many valid requests. A smuggled request would shift the responses on kept-alive connections to the engine. */
  async function expectValidResponses(): Promise<void> {
    const token = authorization === '' ? {} : { token: authorization.slice(22).trim() }
    const responses = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        pipeline(
          attacked.url(),
          [execute(`select ${n}, (select count(*) from t where a = 666)`), close],
          token,
        ),
      ),
    )
    const rows = responses.map((reply) =>
      reply.results[0]?.response?.result?.rows[0]?.map(({ value }) => value),
    )
    expect(rows).toEqual(Array.from({ length: 12 }, (_, n) => [String(n), '0']))
  }

  test.each(['GET', 'HEAD', 'OPTIONS'])('rejects a body in a %s request', async (method) => {
    for (const path of [
      '/app/beta/listen?table=t',
      '/app/dump',
      '/app/v1/jobs',
      '/version',
      '/app/v2/pipeline',
    ]) {
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const length = `content-length: ${smuggledRequest.length}\r\n`
        const [status] = statuses(
          await sendRaw(port, createHead(`${method} ${path}`, length) + smuggledRequest),
        )
        expect([path, status]).toEqual([path, 400])
      }
      const chunked = `${smuggledRequest.length.toString(16)}\r\n${smuggledRequest}\r\n0\r\n\r\n`
      const received = await sendRaw(
        port,
        createHead(`${method} ${path}`, 'transfer-encoding: chunked\r\n') + chunked,
      )
      expect(statuses(received)).toEqual([400])
    }
    await expectValidResponses()
  })

  test.each([
    ['length and chunks', (n: number) => `content-length: ${n}\r\ntransfer-encoding: chunked\r\n`],
    ['chunks and length', (n: number) => `transfer-encoding: chunked\r\ncontent-length: ${n}\r\n`],
    ['two lengths', (n: number) => `content-length: 5\r\ncontent-length: ${n}\r\n`],
    ['two lengths in one header', (n: number) => `content-length: 5, ${n}\r\n`],
    ['a length with a sign', (n: number) => `content-length: +${n}\r\n`],
    ['a length in hexadecimal', (n: number) => `content-length: 0x${n.toString(16)}\r\n`],
    ['chunked that is not the last coding', () => 'transfer-encoding: chunked, identity\r\n'],
    ['an unknown coding', () => 'transfer-encoding: xchunked\r\n'],
    ['a space before the colon', (n: number) => `content-length : ${n}\r\n`],
    [
      'a header continued on the next line',
      (n: number) => `x: y\r\n transfer-encoding: chunked\r\ncontent-length: ${n}\r\n`,
    ],
  ])('%s', async (_, headers) => {
    const body = `${createBody('select 1').length.toString(16)}\r\n${createBody('select 1')}\r\n0\r\n\r\n`
    const received = await sendRaw(
      port,
      createHead('POST /app/v2/pipeline', headers(4)) + body + smuggledRequest,
    )
    expect(statuses(received).filter((status) => status !== 400)).toEqual([])
    expect(received).not.toContain('affected_row_count')
    await expectValidResponses()
  })

  test('a chunked body with extensions and trailers is one body', async () => {
    const body = createBody('select 42 as a')
    const [firstPart, secondPart] = [body.slice(0, 7), body.slice(7)]
    const chunks =
      `${firstPart.length.toString(16)};name="a\\";b"\r\n${firstPart}\r\n` +
      `${secondPart.length.toString(16)};x=1\r\n${secondPart}\r\n0\r\nx-namespace: other\r\n\r\n`
    const received = await sendRaw(
      port,
      `${createHead('POST /app/v2/pipeline', 'transfer-encoding: chunked\r\n')}${chunks}${createPost('select 43 as a')}`,
    )
    expect(statuses(received)).toEqual([200, 200])
    expect([...received.matchAll(/"value":"(4\d)"/g)].map(([, value]) => value)).toEqual(['42', '43'])
  })

  test.each([
    ['with only line feeds', '5\nhello\n0\n\n'],
    ['with a size that is too large', 'ffffffffffffffff1\r\nhello\r\n0\r\n\r\n'],
    ['with a negative size', '-5\r\nhello\r\n0\r\n\r\n'],
    ['followed by text', '5\r\nhelloGET / HTTP/1.1\r\n0\r\n\r\n'],
  ])('a chunk %s', async (_, chunks) => {
    const received = await sendRaw(
      port,
      `${createHead('POST /app/v2/pipeline', 'transfer-encoding: chunked\r\n')}${chunks}${smuggledRequest}`,
    )
    expect(statuses(received).filter((status) => status !== 400)).toEqual([])
    await expectValidResponses()
  })

  test('pipelined requests get their responses in order', async () => {
    const requests = Array.from({ length: 20 }, (_, n) => createPost(`select ${1000 + n} as a`)).join('')
    const received = await sendRaw(port, requests, 20)
    const values = [...received.matchAll(/"value":"(\d{4})"/g)].map(([, value]) => Number(value))
    expect(values).toEqual(Array.from({ length: 20 }, (_, n) => 1000 + n))
  })

  test('accepts absolute request targets', async () => {
    const line = 'POST http://127.0.0.1/app/v2/pipeline'
    const body = createBody('select 42')
    const length = `content-length: ${body.length}\r\n`
    expect(statuses(await sendRaw(port, createHead(line, length) + body))).toEqual([200])
    const otherDatabase = createHead('POST http://app.localhost/v2/pipeline', length) + body
    expect(statuses(await sendRaw(port, otherDatabase))).toEqual([400])
    const foreignHost = createHead('POST http://evil.example/app/v2/pipeline', length) + body
    expect(statuses(await sendRaw(port, foreignHost))).toEqual([400])
    expect(statuses(await sendRaw(port, createHead('OPTIONS *')))).toEqual([404])
    expect(statuses(await sendRaw(port, createHead('CONNECT 127.0.0.1:80')))).toEqual([])
  })

  test('an upgrade does not switch protocols', async () => {
    const upgrade =
      'connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n'
    const received = await sendRaw(
      port,
      createPost('select 42 as a', upgrade) + smuggledRequest.replace('666', '667'),
    )
    expect(received).not.toContain('HTTP/1.1 101')
  })
})
