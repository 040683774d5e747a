import http from 'node:http'
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { expectNoStall } from '../targets/no-stall.ts'

/** Requests to the pipeline of a database, as bare as can be. */
function pipelineOf(url: string) {
  return async (baton: string | null, texts: readonly string[]) => {
    const requests = texts.map((sql) =>
      sql === 'close' ? { type: 'close' } : { type: 'execute', stmt: { sql } },
    )
    const body = JSON.stringify({ baton, requests })
    const answer = await fetch(`${url}/v3/pipeline`, { method: 'POST', body })
    return (await answer.json()) as { baton: string | null; results: { type: string }[] }
  }
}

/** Never ends by itself. */
const ENDLESS_INSERT =
  'INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n'
/** By then a request is at the server, on most machines. */
const SENT_MS = 100

/** Sends a request, and is gone before the answer. */
async function sendAndLeave(url: string, baton: string | null, sql: string): Promise<void> {
  const body = JSON.stringify({ baton, requests: [{ type: 'execute', stmt: { sql } }] })
  await new Promise<void>((resolve) => {
    const request = http.request(`${url}/v3/pipeline`, { method: 'POST', agent: false })
    request.on('error', () => resolve())
    request.on('close', () => resolve())
    request.end(body, () => setTimeout(() => request.destroy(), SENT_MS))
  })
}

test('a client that leaves in a write transaction, its request sent, does not keep the lock from others', async () => {
  await using server = await startLocalServer({ backend: 'sqld' })
  const send = pipelineOf(server.url)
  await send(null, ['CREATE TABLE t(a)', 'INSERT INTO t VALUES (1)', 'close'])
  const { baton } = await send(null, ['BEGIN IMMEDIATE'])
  await sendAndLeave(server.url, baton, ENDLESS_INSERT)
  const { results } = await expectNoStall(() =>
    send(null, ['INSERT INTO t VALUES (3)', 'SELECT group_concat(a) FROM t', 'close']),
  )
  expect(JSON.stringify(results)).toContain('"1,3"')
})
