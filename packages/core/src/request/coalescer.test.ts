import { expect, test, vi } from 'vitest'
import { respond, row, type Script, scripted, status, streams } from '../../test-support/scripted-server.ts'
import { coalesce } from './coalescer.ts'

const fulfilled = { status: 'fulfilled' }
/** Returns the statements of each request. */
const getStatements = (received: readonly { readonly body: string }[]): string[][] =>
  received.map(({ body }) =>
    (JSON.parse(body) as { requests: { stmt?: { sql: string } }[] }).requests.flatMap(
      ({ stmt }) => stmt?.sql ?? [],
    ),
  )

test('statements queued in the same tick share a request, reads with reads and writes with writes', async () => {
  const { db, received } = await scripted(streams(), { coalesce })
  await Promise.all([
    db.execute('insert into t values (1)'),
    db.execute('select 1'),
    Promise.resolve().then(() => db.execute('insert into t values (2)')),
  ])
  await db.execute('select 3')
  expect(getStatements(received).toSorted()).toEqual([
    ['insert into t values (1)', 'insert into t values (2)'],
    ['select 1'],
    ['select 3'],
  ])
  for (const { body } of received)
    expect((JSON.parse(body) as { requests: unknown[] }).requests.at(-1)).toEqual({ type: 'close' })
})

test('without the option, each statement has its own request', async () => {
  const { db, received } = await scripted(streams())
  await Promise.all([db.execute('select 1'), db.execute('select 2')])
  expect(received).toHaveLength(2)
})

test('batches and transactions are not coalesced', async () => {
  const { db, received } = await scripted(streams(), { coalesce })
  await Promise.all([
    db.execute('select 1'),
    db.batch(['select 2']),
    db.transaction((tx) => tx.execute('select 3')),
    db.execute('select 4'),
  ])
  const coalesced = getStatements(received).filter((statements) => statements.length > 0)
  expect(coalesced).toEqual([['select 1', 'select 4']])
})

test('a request has at most 16 statements, and a long statement has its own request', async () => {
  const { db, received } = await scripted(streams(), { coalesce })
  const long = `select '${'x'.repeat(262_144)}'`
  const short = Array.from({ length: 18 }, (_, n) => `select ${n}`)
  await Promise.all([...short.slice(0, 17), long, ...short.slice(17)].map((sql) => db.execute(sql)))
  // the requests are sent at once, and may arrive in any order
  const sent = getStatements(received)
  expect(sent).toHaveLength(4)
  expect(sent).toEqual(
    expect.arrayContaining([short.slice(0, 16), short.slice(16, 17), [long], short.slice(17)]),
  )
})

test.each([
  [['select 1', 'select 2'], 3],
  [['delete from t', 'insert into t values (1)'], 1],
])('%j after HTTP 503: sent %i times, because only reads are retried', async (statements, times) => {
  const { db, received } = await scripted(status(503, ''), { coalesce })
  const outcomes = await Promise.allSettled(statements.map((sql) => db.execute(sql)))
  expect(received).toHaveLength(times)
  const reasons = outcomes.map((outcome) =>
    outcome.status === 'rejected' ? (outcome.reason as Error) : null,
  )
  for (const [index, reason] of reasons.entries()) {
    expect(reason).toMatchObject({ code: 'HTTP_STATUS', status: 503 })
    // each error shows its own statement
    expect(reason?.stack).toContain(`SQL: ${statements[index]}\n`)
  }
})

/** Responds with HTTP 500 if a statement contains `bad`, like a server that cannot encode a result as JSON. */
const failing: Script = (request, response, count) =>
  (request.body.includes('bad') ? status(500, 'invalid utf-8 sequence') : streams())(request, response, count)

test('if reads share a request, only the read whose result cannot be encoded fails', async () => {
  const { db, received } = await scripted(failing, { coalesce })
  const reads = ['select 1', 'select bad', 'select 2'].map((sql) => db.execute(sql))
  const reason = { code: 'HTTP_STATUS', status: 500, outcome: 'not_applied' }
  expect(await Promise.allSettled(reads)).toMatchObject([fulfilled, { reason }, fulfilled])
  // first in one request, then each separately
  expect(received).toHaveLength(4)
})

test('writes that return rows do not share a request with other writes', async () => {
  const { db, received } = await scripted(failing, { coalesce })
  const statements = [
    'insert into t values (1)',
    'delete from t',
    'insert into t values (2) returning bad',
    'insert into t values (3) RETURNING a',
    'insert into t values (4)',
  ]
  const outcomes = await Promise.allSettled(statements.map((sql) => db.execute(sql)))
  expect(getStatements(received)).toEqual([
    statements.slice(0, 2),
    statements.slice(2, 4),
    statements.slice(4),
  ])
  const unknown = { reason: { status: 500, outcome: 'unknown' } }
  expect(outcomes).toMatchObject([fulfilled, fulfilled, unknown, unknown, fulfilled])
})

test('a missing result fails only its own call', async () => {
  const script: Script = (request, response) => {
    const { requests } = JSON.parse(request.body) as { requests: { type: string }[] }
    const results = requests.map(({ type }, index) =>
      index === 1 ? { type: 'ok', response: { type } } : { type: 'ok', response: { type, result: row } },
    )
    respond(response, { baton: null, base_url: null, results })
  }
  const { db } = await scripted(script, { coalesce })
  const outcomes = await Promise.allSettled([1, 2, 3].map((n) => db.execute(`delete from t where a = ${n}`)))
  expect(outcomes).toMatchObject([fulfilled, { reason: { code: 'PROTOCOL', outcome: 'unknown' } }, fulfilled])
})

test('a read that times out has changed nothing', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const { db, received } = await scripted(() => {}, { coalesce })
  const read = db.execute('select 1', [], { timeoutMs: 100 })
  const outcome = expect(read).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
  await expect.poll(() => received.length).toBe(1)
  vi.advanceTimersByTime(100)
  await outcome
})

/** Responds when the test calls `respondAll`. */
function delayedServer(): { script: Script; respondAll: () => void } {
  const pending: (() => void)[] = []
  return {
    script: (...args) => void pending.push(() => streams()(...args)),
    respondAll: () => {
      for (const sendResponse of pending.splice(0)) sendResponse()
    },
  }
}

test('an aborted call does not affect the results of the others', async () => {
  const { script, respondAll } = delayedServer()
  const { db, received } = await scripted(script, { coalesce })
  const controller = new AbortController()
  const abortedCall = db.execute('select 1', [], { signal: controller.signal })
  const timeout = { code: 'TIMEOUT', message: expect.stringContaining('100 ms') }
  const timedOutCall = expect(db.execute('select 2', [], { timeoutMs: 100 })).rejects.toMatchObject(timeout)
  const pendingCall = db.execute('select 3')
  await expect.poll(() => received.length).toBe(1)
  controller.abort(new Error('no longer wanted'))
  await expect(abortedCall).rejects.toThrow('no longer wanted')
  await timedOutCall
  respondAll()
  expect((await pendingCall).rows).toEqual([{ a: 1 }])
})

test('a call that times out while its request is queued is not applied', async () => {
  const { script, respondAll } = delayedServer()
  const { db, received } = await scripted(script, { coalesce })
  // only one request with writes is in flight at a time
  const earlierCall = db.execute('insert into t values (1)')
  await expect.poll(() => received.length).toBe(1)
  const queued = db.execute('insert into t values (5)', [], { timeoutMs: 50 })
  await expect(queued).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
  respondAll()
  await earlierCall
  const laterCall = db.execute('insert into t values (9)')
  await expect.poll(() => received.length).toBe(2)
  respondAll()
  await laterCall
  expect(getStatements(received)).toEqual([['insert into t values (1)'], ['insert into t values (9)']])
})

test('a call that is aborted while it is queued is not sent', async () => {
  const { db, received } = await scripted(streams(), { coalesce })
  const reason = new Error('too late')
  const calls = [
    db.execute('insert into t values (1)', [], { signal: AbortSignal.abort(reason) }),
    db.execute('select 2'),
  ]
  await expect(calls[0]).rejects.toBe(reason)
  await calls[1]
  expect(getStatements(received)).toEqual([['select 2']])
})

test('when all calls are aborted, the connection is dropped', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const ends: unknown[] = []
  const { db, received } = await scripted(
    (_, response) => void response.on('close', () => ends.push(response.writableFinished)),
    { coalesce },
  )
  const calls = [1, 2].map((n) => db.execute(`select ${n}`, [], { timeoutMs: 50 * n }))
  await expect.poll(() => received.length).toBe(1)
  vi.advanceTimersByTime(100)
  expect(await Promise.allSettled(calls)).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }])
  await expect.poll(() => ends).toEqual([false])
  expect(received).toHaveLength(1)
})

test('a response with too few results fails the calls without one', async () => {
  const results = [{ type: 'ok', response: { type: 'execute', result: row } }]
  const { db } = await scripted((_, response) => respond(response, { results }), { coalesce })
  const [first, second] = await Promise.allSettled([db.execute('select 1'), db.execute('select 2')])
  expect(first.status).toBe('fulfilled')
  expect(second).toMatchObject({ status: 'rejected', reason: { code: 'PROTOCOL' } })
})

test('closing a client rejects queued calls, or waits for them with drainMs', async () => {
  const { db, received } = await scripted(streams(), { coalesce })
  const call = db.execute('select 1')
  await Promise.all([db.close({ drainMs: 1_000 }), expect(call).resolves.toBeDefined()])
  const otherServer = await scripted(streams(), { coalesce })
  const canceled = otherServer.db.execute('insert into t values (1)')
  const rejection = expect(canceled).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
  await otherServer.db.close()
  await rejection
  expect([received.length, otherServer.received.length]).toEqual([1, 0])
})

test.each([{}, 'yes', 1])('coalesce: %j is rejected', async (coalesce) => {
  await expect(scripted(streams(), { coalesce: coalesce as never })).rejects.toThrow(
    'coalesce must be function',
  )
})

test('a client whose calls have ended closes at once', async () => {
  const { db } = await scripted(streams(), { coalesce })
  await Promise.all([db.execute('insert into t values (1)'), db.execute('select 1')])
  await db.close({ drainMs: Infinity })
})
