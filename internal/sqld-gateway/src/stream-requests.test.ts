import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { newKeyPair } from '@batonsql/server-common/auth'
import {
  newDatabaseId,
  type RemoteSqldOptions,
  type RevokedAccess,
  RunningRequests,
} from '@batonsql/server-common/backend'
import { toResponse } from '@batonsql/server-common/http'
import { expect, onTestFinished, test, vi } from 'vitest'
import { serviceRequest } from '../../../test/server/service-request.ts'
import { execute } from '../../../test/server/wire.ts'
import { serveHttp } from '../../../test/support/serve-http.ts'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import type { TestHttpServer } from '../../../test/support/test-http-server.ts'
import { InternalRequests } from './process/internal-requests.ts'
import { Upstream } from './process/upstream.ts'
import { StreamRequests } from './stream-requests.ts'
import { StreamWrites } from './writes/stream-writes.ts'
import { WriteService } from './writes/write-service.ts'

/** Creates stream requests for a server; `insert` sends it a write. */
function createStreams(remote?: RemoteSqldOptions, beforeWrite = async (): Promise<void> => {}) {
  const options = {
    directory: createTemporaryDirectory(),
    isOpen: true,
    controlKey: newKeyPair(),
    sqldPath: undefined,
    remote,
  }
  const upstream = new Upstream(options, { onStart: () => {}, filterAttachable: () => [] })
  const internal = new InternalRequests(upstream)
  const writes = new WriteService(upstream, internal, {
    getFile: null,
    beforeWrite,
    onNotice: () => {},
    stallTimes: undefined,
  })
  onTestFinished(async () => {
    writes.close()
    await upstream.close()
  })
  const streams = new StreamRequests(upstream, internal, writes)
  const [id, requests, controller] = [newDatabaseId(), new RunningRequests(), new AbortController()]
  const insert = (baton: string | null = null, sql = 'INSERT INTO t VALUES (1)') => {
    const running = requests.begin(id, controller)
    const request = serviceRequest({ baton, requests: [execute(sql)] }, { controller })
    const rules = {
      permissions: { write: true, changeSharedSchema: true, attach: [] },
      blockReads: false,
      blockWrites: false,
      isSchema: false,
      migrationRejection: null,
      resolveName: () => undefined,
    }
    return streams.handle(id, { request, running }, () => rules).finally(() => running.release())
  }
  return { id, upstream, writes, streams, requests, controller, insert }
}

test.each<RevokedAccess>(['writes', 'all'])(
  'a write is not sent if its access was revoked (%s) before it entered',
  async (access) => {
    const [waiting, mayEnter] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    // not started: a request that is sent rejects
    const { id, requests, insert } = createStreams(undefined, async () => {
      waiting.resolve()
      await mayEnter.promise
    })
    const response = insert()
    await waiting.promise
    const revocation = requests.revoke(id, access)
    mayEnter.resolve()
    expect((await response).status).toBe(403)
    expect(await revocation).toEqual([])
  },
)

/** Starts a server that identifies itself as libsql-server. @param respond by default, it responds to no pipeline */
const startServer = (respond: (response: ServerResponse) => unknown = () => {}): Promise<TestHttpServer> =>
  serveHttp((request, response) => {
    if (request.method === 'GET') response.end(request.url === '/version' ? 'sqld 1' : 'sqld admin API')
    else respond(response)
  })

test.each([
  ['the connection is closed', false],
  ['it is aborted', true],
])('if %s, whether the server may still execute a write is %s', async (_, isAbandoned) => {
  const { http, url } = await startServer()
  const { id, upstream, writes, requests, insert } = createStreams({
    url,
    adminUrl: url,
    adminKey: 'key',
  })
  await upstream.start()
  const received = once(http, 'request')
  const response = insert()
  const [{ socket }] = await Promise.race([received, response.then(() => expect.fail('it has a response'))])
  if (isAbandoned) requests.abort(id)
  else socket.destroy()
  await expect(response).rejects.toMatchObject(
    isAbandoned ? { name: 'AbortError' } : { code: 'UND_ERR_SOCKET' },
  )
  expect(writes.isAbandoned(id)).toBe(isAbandoned)
  // its stream no longer counts as a writer that waits for a response
  expect(writes.isContended(id, new StreamWrites())).toBe(false)
})

test('a transaction may still hold the write lock after the sender of a rejected baton has disconnected', async () => {
  const bodies = [`{"baton":"${'A'.repeat(64)}","results":[]}`]
  const { url } = await startServer((response) => {
    const body = bodies.shift()
    if (body === undefined) controller.abort()
    response.writeHead(body === undefined ? 400 : 200).end(body)
  })
  const { upstream, writes, insert, controller } = createStreams({ url, adminUrl: url, adminKey: 'key' })
  await upstream.start()
  const enter = vi.spyOn(writes, 'enter')
  for (const args of [[null, 'BEGIN IMMEDIATE'], ['A'.repeat(64)]] as const)
    await toResponse(await insert(...args)).text()
  expect(await enter.mock.results[0]?.value).toMatchObject({ mayHoldLock: true })
})

test('a transaction may still hold the write lock after its server has rejected an earlier baton', async () => {
  const baton = 'A'.repeat(64)
  const responses = [`{"baton":"${baton}","results":[]}`, 'Received a baton that has already been used']
  const { url } = await startServer((response) => {
    const text = responses.shift() as string
    response.writeHead(text.startsWith('{') ? 200 : 400).end(text)
  })
  const { upstream, writes, insert } = createStreams({ url, adminUrl: url, adminKey: 'key' })
  await upstream.start()
  const enter = vi.spyOn(writes, 'enter')
  for (const args of [[null, 'BEGIN IMMEDIATE'], [baton]] as const)
    await toResponse(await insert(...args)).text()
  const [request] = await Promise.all(enter.mock.results.map(({ value }) => value))
  expect(request.mayHoldLock).toBe(true)
})

test('a transaction that begins while the streams of a revoked sender are closed may still hold the write lock', async () => {
  const closing = Promise.withResolvers<ServerResponse>()
  const batons = ['A'.repeat(64), null, 'B'.repeat(64)]
  const { url } = await startServer((response) => {
    const baton = batons.shift()
    if (baton === null) closing.resolve(response)
    else response.end(`{"baton":"${baton}","results":[]}`)
  })
  const { id, upstream, writes, streams, insert } = createStreams({ url, adminUrl: url, adminKey: 'key' })
  await upstream.start()
  const enter = vi.spyOn(writes, 'enter')
  const begin = async () => await toResponse(await insert(null, 'BEGIN IMMEDIATE')).text()
  await begin()
  const closed = streams.closeStreams(id, 'all')
  const closingResponse = await closing.promise
  await begin()
  closingResponse.end('{}')
  await closed
  const entered = await Promise.all(enter.mock.results.map(({ value }) => value))
  expect(entered.map(({ mayHoldLock }) => mayHoldLock)).toEqual([false, true])
})
