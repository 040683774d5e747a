import { once } from 'node:events'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, test } from 'vitest'
import { collectOutput, startBaton } from '../support/baton-command.ts'
import { stablePort } from '../support/stable-port.ts'
import { waitFor } from '../support/wait-for.ts'
import { connectAgent, startAgent } from './mcp-agent.ts'

// The parts of `baton mcp` that do not depend on the server, and those that only a local server supports.

const server = await startLocalServer({ inspector: true })
afterAll(() => server.close())
const serverWithAuth = await startLocalServer({ auth: true })
afterAll(() => serverWithAuth.close())
const agent = await startAgent([server.url])
const agentWithAuth = await startAgent([serverWithAuth.url], {
  BATON_AUTH_TOKEN: await serverWithAuth.createToken('default', { authorization: 'read-only' }),
})

interface ListedRequest {
  readonly statements?: readonly string[]
  readonly stream?: number
  readonly tookMs: number | null
  readonly waitedForWriteLockMs?: number
  readonly heldBy?: readonly object[]
}

/** Polls until the inspector has reported the requests and their responses. */
async function waitForRequests(contains: string, count: number): Promise<readonly ListedRequest[]> {
  return await waitFor(async () => {
    const { value, error } = await agent.call('recent_requests', { contains })
    expect(error).toBeUndefined()
    expect(value.requests).toHaveLength(count)
    for (const { tookMs } of value.requests) expect(tookMs).not.toBeNull()
    return value.requests as ListedRequest[]
  })
}

test('shows which transaction another one waited for, and how long the first one held the write lock', async () => {
  const [first, second] = [createClient({ url: server.url }), createClient({ url: server.url })]
  await waitFor(async () => expect((await agent.call('recent_requests')).error).toBeUndefined())
  await first.execute('create table note (text)')
  let secondTransaction: Promise<void> | undefined
  await first.transaction(async (tx) => {
    await tx.execute("insert into note values ('first')")
    secondTransaction = second.transaction(
      async (tx2) => void (await tx2.execute("insert into note values ('second')")),
    )
    await waitFor(async () => {
      const { value } = await agent.call('recent_requests')
      expect(value.writeLocks).toEqual([
        expect.objectContaining({ database: 'default', state: 'open', waiting: [expect.any(Number)] }),
      ])
    })
  })
  await secondTransaction
  const [request] = await waitForRequests("values ('second')", 1)
  expect(request?.statements?.[0]).toMatch(/^BEGIN/)
  expect(request?.waitedForWriteLockMs).toBeGreaterThan(0)
  expect(request?.heldBy).toEqual([
    expect.objectContaining({
      state: 'committed',
      requests: expect.any(Number),
      heldWriteLockMs: expect.any(Number),
    }),
  ])
  expect((await waitForRequests("values ('first')", 1))[0]).not.toHaveProperty('waitedForWriteLockMs')
  await first.execute('select missing').catch(() => {})
  expect(await waitForRequests('select missing', 1)).toEqual([
    expect.objectContaining({ error: expect.stringContaining('no such column: missing') }),
  ])
  await first.execute(`select '${'x'.repeat(400)}', "text"\nfrom "note"`)
  await waitForRequests('"text"\nfrom "note"', 1)
  expect((await agent.call('recent_requests', { limit: 1 })).value.requests).toHaveLength(1)
  await Promise.all([first.close(), second.close()])
})

test('reports that a server has no inspector; the other tools still work', async () => {
  await waitFor(async () => expect((await agentWithAuth.call('recent_requests')).error).toContain('HTTP 404'))
  expect((await agentWithAuth.call('query', { sql: 'select 1 as one' })).value.rows).toEqual([[1]])
})

test('can be started before the server, and reconnects to a restarted one', async () => {
  const port = await stablePort()
  const agentBeforeServer = await connectAgent([`http://127.0.0.1:${port}`])
  expect((await agentBeforeServer.call('query', { sql: 'select 1' })).error).toContain('ECONNREFUSED')
  await waitFor(async () =>
    expect((await agentBeforeServer.call('recent_requests')).error).toContain('ECONNREFUSED'),
  )
  for (const round of [1, 2]) {
    await using lateServer = await startLocalServer({ port, inspector: true })
    await waitFor(async () => {
      expect((await agentBeforeServer.call('query', { sql: `select ${round}` })).value.rows).toEqual([
        [round],
      ])
      const { value } = await agentBeforeServer.call('recent_requests', { contains: `select ${round}` })
      expect(value.requests.length).toBeGreaterThan(0)
    })
    expect(lateServer.requestCount('default')).toBeGreaterThan(0)
  }
  await agentBeforeServer.client.close()
})

test('exits at the end of its input, and on Ctrl-C', async () => {
  const withoutInput = startBaton(['mcp', server.url])
  withoutInput.stdin.end()
  expect(await collectOutput(withoutInput)).toEqual({ code: 0, output: '', errors: '' })
  const interrupted = startBaton(['mcp', server.url])
  interrupted.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`)
  await once(interrupted.stdout, 'data')
  interrupted.kill('SIGINT')
  expect(await once(interrupted, 'close')).toEqual([130, null])
})

test('requires a database', async () => {
  const { code, errors } = await collectOutput(startBaton(['mcp'], { DATABASE_URL: '' }))
  expect([code, errors]).toEqual([2, expect.stringContaining('missing database')])
})
