import http from 'node:http'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { expect, onTestFinished, test } from 'vitest'
import { FaultProxy, NO_FAULT } from '../../support/fault-proxy.ts'
import { expectNoStall } from '../../support/no-stall.ts'

/** Returns a function that sends requests to the pipeline of a database. */
function createPipelineSender(url: string) {
  return async (baton: string | null, texts: readonly string[]) => {
    const requests = texts.map((sql) =>
      sql === 'close' ? { type: 'close' } : { type: 'execute', stmt: { sql } },
    )
    const body = JSON.stringify({ baton, requests })
    const response = await fetch(`${url}/v3/pipeline`, { method: 'POST', body })
    return (await response.json()) as { baton: string | null; results: { type: string }[] }
  }
}

/** Sends a request, and disconnects before the response. @param arrived settles when the server has received it */
async function sendAndDisconnect(
  url: string,
  { baton, sql, arrived }: { baton: string | null; sql: string; arrived: Promise<unknown> },
): Promise<void> {
  const body = JSON.stringify({ baton, requests: [{ type: 'execute', stmt: { sql } }] })
  await new Promise<void>((resolve) => {
    const request = http.request(`${url}/v3/pipeline`, { method: 'POST', agent: false })
    request.on('error', () => resolve())
    request.on('close', () => resolve())
    request.end(body)
    void arrived.then(() => request.destroy())
  })
}

test('a client that disconnects in a write transaction after sending a request does not keep the write lock', async () => {
  const sqld = await startSqld({ namespaces: true })
  onTestFinished(() => sqld.close())
  const proxy = await FaultProxy.start(sqld.url)
  onTestFinished(() => proxy.close())
  await using server = await startLocalServer({
    backend: 'sqld',
    sqld: { url: proxy.url, ...sqld.adminAccess },
  })
  const send = createPipelineSender(server.url)
  await send(null, ['CREATE TABLE t(a)', 'INSERT INTO t VALUES (1)', 'close'])
  const { baton } = await send(null, ['BEGIN IMMEDIATE'])
  const arrived = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  proxy.next = (body) => {
    if (!body.includes('VALUES (2)')) return NO_FAULT
    arrived.resolve()
    return { kind: 'hold-response', until: released.promise }
  }
  const sql = 'INSERT INTO t VALUES (2)'
  await sendAndDisconnect(server.url, { baton, sql, arrived: arrived.promise })
  released.resolve()
  const { results } = await expectNoStall(() =>
    send(null, ['INSERT INTO t VALUES (3)', 'SELECT group_concat(a) FROM t', 'close']),
  )
  expect(JSON.stringify(results)).toContain('"1,3"')
})
