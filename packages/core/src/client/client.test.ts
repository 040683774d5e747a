import { expect, test, vi } from 'vitest'
import { batchResponse, isNever, type ScriptedStep } from '../../test-support/scripted-batch.ts'
import {
  disconnect,
  ifIncludes,
  inOrder,
  respond,
  row,
  type Script,
  scripted,
  status,
  streams,
} from '../../test-support/scripted-server.ts'
import { HttpError } from '../base/errors.ts'
import { createClient } from './client.ts'
import { executeMultiple } from './execute-multiple.ts'
import { openStream } from './stream.ts'

// Batches and transactions on servers that respond incorrectly. Each test scripts its own.

/** Returns the steps of a request, without those for servers that ignore conditions. */
const getSteps = (body = ''): ScriptedStep[] =>
  (JSON.parse(body) as { requests: [{ batch: { steps: ScriptedStep[] } }] }).requests[0].batch.steps.filter(
    ({ condition }) => !isNever(condition),
  )

test.each(['', '<html>no such page</html>', 'not found'])(
  'a server without /v3 (404 with %j) receives transactions on /v2, each statement after a BEGIN probe',
  async (page) => {
    const { db, received } = await scripted((request, response, count) => {
      if (request.url.startsWith('/v3')) status(404, page)(request, response, count)
      else {
        // inside the transaction the probes fail
        const { requests } = JSON.parse(request.body) as { requests: { batch?: { steps: ScriptedStep[] } }[] }
        const nestedBegin = { message: 'inside a transaction', code: 'SQLITE_UNKNOWN' }
        const result = batchResponse(requests[0]?.batch?.steps ?? [], row, (sql) =>
          sql === 'BEGIN DEFERRED' ? nestedBegin : null,
        )
        respond(response, {
          baton: `b${count}`,
          base_url: null,
          results: [{ type: 'ok', response: { type: 'batch', result } }],
        })
      }
    })
    await db.transaction(async (tx) => {
      await Promise.all([tx.execute('select 1'), tx.execute('select 2')])
    })
    await db.transaction((tx) => tx.execute('select 3'))
    expect(received.map(({ url }) => url)).toEqual(['/v3/pipeline', ...Array<string>(4).fill('/v2/pipeline')])
    const sql = getSteps(received[1]?.body).map(({ stmt }) => stmt.sql)
    expect(sql).toEqual(['BEGIN IMMEDIATE', 'select 1', 'BEGIN DEFERRED', 'select 2', 'ROLLBACK'])
    expect(received[1]?.body).not.toContain('is_autocommit')
  },
)

test('a server without /v3 is probed once, even by streams that end with their first request', async () => {
  const { db, received } = await scripted((request, response, count) => {
    if (request.url.startsWith('/v3')) status(404, '')(request, response, count)
    else streams()(request, response, count)
  })
  for (let round = 0; round < 2; round += 1) {
    const stream = openStream(db)
    await Promise.all([stream.execute('select 1'), stream.close()])
  }
  expect(received.map(({ url }) => url)).toEqual(['/v3/pipeline', '/v2/pipeline', '/v2/pipeline'])
})

test.each(['throw', 'rollback'])(
  'a transaction that ends with a %s settles only after the server has ended it',
  async (end) => {
    let isEnded = false
    const { db } = await scripted((request, response, count) => {
      if (!request.body.includes('"requests":[{"type":"close"}]')) streams()(request, response, count)
      else
        setTimeout(() => {
          isEnded = true
          streams()(request, response, count)
        }, 20)
    })
    const run = db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      if (end === 'throw') throw new Error('own error')
      await tx.rollback()
    })
    await run.catch((error: unknown) => expect(error).toEqual(new Error('own error')))
    expect(isEnded).toBe(true)
  },
)

test('a batch with foreignKeys off disables them before it begins, and runs nothing if that fails', async () => {
  const { db, received } = await scripted(streams())
  expect(await db.batch(['drop table a', 'select 1'], { foreignKeys: 'off' })).toHaveLength(2)
  await db.batch(['drop table b', 'select 1'], { foreignKeys: 'off' })
  const ok = (step: number): unknown => ({ type: 'ok', step })
  const sql = [
    'PRAGMA foreign_keys = off',
    'BEGIN IMMEDIATE',
    'drop table a',
    'select 1',
    'COMMIT',
    'ROLLBACK',
  ]
  expect(getSteps(received[0]?.body).map(({ stmt }) => stmt.sql)).toEqual(sql)
  const conditions = [ok(0), ok(1), ok(2), ok(3), { type: 'not', cond: ok(4) }]
  const steps = sql.with(2, 'drop table b').map((sql, index) => ({
    stmt: { sql },
    ...(index > 0 && { condition: conditions[index - 1] }),
  }))
  expect(JSON.parse(received[1]?.body ?? '')).toMatchObject({
    requests: [{ batch: { steps } }, { type: 'close' }],
  })
})

test('a batch rejected by a server that supports batches is not sent as separate statements', async () => {
  const { db, received } = await scripted((request, response, count) => {
    const isProbe = request.body.includes('{"steps":[{"stmt":{"sql":"SELECT 1"}}]}')
    if (!isProbe) return status(400, '{"error":"no"}')(request, response, count)
    respond(response, {
      baton: null,
      base_url: null,
      results: [
        { type: 'ok', response: { type: 'batch', result: { step_results: [row], step_errors: [null] } } },
        { type: 'ok', response: { type: 'close' } },
      ],
    })
  })
  const expected = { status: 400, outcome: 'not_applied' }
  await expect(db.batch(['insert into t values (1)'])).rejects.toMatchObject(expected)
  await expect(db.batch(['insert into t values (1)'])).rejects.toMatchObject(expected)
  // the server was probed once
  expect(received.map(({ body }) => body.includes('insert'))).toEqual([true, false, true])
})

test('a server that rejects everything is not treated as one without batches', async () => {
  const { db, received } = await scripted(status(400, '{"error":"no"}'))
  const expected = { status: 400, outcome: 'not_applied' }
  await expect(db.batch(['insert into t values (1)'])).rejects.toMatchObject(expected)
  await expect(db.transaction((tx) => tx.execute('select 1'))).rejects.toMatchObject(expected)
  expect(received.filter(({ body }) => body.includes('insert'))).toHaveLength(1)
})

test('a 404 in JSON does not mean that /v3 is missing', async () => {
  const { db, received } = await scripted(
    status(404, '{"error":"Namespace `a` doesn\'t exist"}', 'application/json'),
  )
  await expect(db.transaction((tx) => tx.execute('select 1'))).rejects.toBeInstanceOf(HttpError)
  expect(received.map(({ url }) => url)).toEqual(['/v3/pipeline'])
})

test('a stream continues at the URL that the server returned, a new stream uses the configured URL, and the token is sent to no other host', async () => {
  const redirectTarget = await scripted(streams())
  const { db, received } = await scripted(
    streams(() => ({ base_url: redirectTarget.url })),
    { allowedHosts: [new URL(redirectTarget.url).host], authToken: 'secret' },
  )
  for (let i = 0; i < 2; i++) {
    await db.transaction(async (tx) => {
      await tx.execute('select 1')
      await tx.execute('select 2')
    })
  }
  expect([received.length, redirectTarget.received.length]).toEqual([2, 4])

  const forbiddenHost = await scripted(streams())
  const withoutAllowedHosts = await scripted(
    streams(() => ({ base_url: forbiddenHost.url })),
    { authToken: 'secret' },
  )
  await withoutAllowedHosts.db.transaction((tx) => tx.execute('select 1'))
  expect([withoutAllowedHosts.received.length, forbiddenHost.received.length]).toEqual([2, 0])
})

test.each([
  [400, 'Received an invalid baton', 'text/plain', 'TRANSACTION_LOST'],
  [
    400,
    '{"message":"The stream has expired due to inactivity","code":"STREAM_EXPIRED"}',
    'application/json',
    'TRANSACTION_EXPIRED',
  ],
  [404, '{"error":"stream not found"}', 'application/json', 'TRANSACTION_LOST'],
])(
  'a lost stream (%i %s) rejects the current call and all later ones with the same typed error',
  async (code, text, type, expected) => {
    const { db, received } = await scripted(inOrder(streams(), status(code, text, type)))
    const errors: unknown[] = []
    const transaction = db.transaction(async (tx) => {
      await tx.execute('select 1')
      await tx.execute('select 2').catch((error: unknown) => errors.push(error))
      await tx.execute('select 3').catch((error: unknown) => errors.push(error))
    })
    await expect(transaction).rejects.toMatchObject({ code: expected, cause: { status: code } })
    expect(errors).toMatchObject([{ code: expected }, { code: expected }])
    expect(received).toHaveLength(2)
  },
)

test('a commit whose response is lost has an unknown outcome', async () => {
  const { db } = await scripted(ifIncludes('COMMIT', disconnect, streams()))
  const transaction = db.transaction((tx) => tx.execute('select 1'))
  await expect(transaction).rejects.toMatchObject({ code: 'NETWORK', outcome: 'unknown' })
})

test('a transaction that has lost a response sends nothing more, and its rollback does not reject', async () => {
  const { db, received } = await scripted(disconnect)
  const callbackError = new Error('own error')
  const transaction = db.transaction(async (tx) => {
    await expect(tx.execute('select 1')).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
    await expect(tx.execute('select 2')).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
    throw callbackError
  })
  await expect(transaction).rejects.toBe(callbackError)
  expect(received).toHaveLength(1)
})

test('a transaction is lost if a response in the middle of it has no baton', async () => {
  const { db } = await scripted(streams(() => ({ baton: null })))
  const transaction = db.transaction(async (tx) => {
    await tx.execute('select 1')
    await tx.execute('select 2')
  })
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
})

test('an idle transaction is closed after its time limit; later calls reject, including the commit', async () => {
  const lost = Promise.withResolvers<void>()
  const { db, received } = await scripted(streams(), {
    transactionTimeoutMs: 40,
    observe: ({ type }) => void (type === 'transaction:lost' && lost.resolve()),
  })
  const swallowed: unknown[] = []
  const transaction = db.transaction(async (tx) => {
    expect([tx.expiresAt, tx.remainingMs]).toEqual([null, Infinity])
    await tx.execute('select 1')
    expect(tx.remainingMs).toBeLessThanOrEqual(5_000)
    await lost.promise
    await tx.execute('select 2').catch((error: unknown) => swallowed.push(error))
  })
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
  expect(swallowed).toMatchObject([{ code: 'TRANSACTION_EXPIRED' }])
  // the statement, and the request that closes the stream, which releases the write lock
  expect(received.map(({ body }) => body.includes('close'))).toEqual([false, true])
})

test('a transaction that has ended leaves no timer that would keep the process running', async () => {
  const { db } = await scripted(streams(), { requestTimeoutMs: Infinity })
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  await db.execute('select 1')
  const before = timers()
  await db.transaction(async (tx) => {
    await tx.execute('insert into a values (1)')
    await tx.execute('insert into a values (2)')
  })
  // some timers of earlier tests in this process may have ended
  expect(timers()).toBeLessThanOrEqual(before)
})

test('a transaction is not closed while a request is in flight, nor if another follows immediately', async () => {
  const { db, received } = await scripted(
    (request, response, count) => void setTimeout(() => streams()(request, response, count), 30),
    { transactionTimeoutMs: 20 },
  )
  await db.transaction(async (tx) => {
    for (let i = 0; i < 3; i++) await tx.execute('insert into t values (1)')
  })
  expect(received).toHaveLength(4)
})

test.each([
  ['deferred', 'select 1', null],
  ['deferred', 'insert into t values (1)', expect.any(Number)],
  ['readonly', 'select 1', null],
  ['immediate', 'select 1', expect.any(Number)],
] as const)('the time limit of a %s transaction after %s', async (mode, sql, expected) => {
  const { db } = await scripted(streams())
  await db.transaction(
    async (tx) => {
      await tx.execute(sql)
      expect(tx.expiresAt).toEqual(expected)
    },
    { mode },
  )
})

test('with transactionTimeoutMs: Infinity, only the server ends idle transactions', async () => {
  const { db } = await scripted(streams(), { transactionTimeoutMs: Infinity })
  await db.transaction(async (tx) => {
    await tx.execute('select 1')
    expect(tx.remainingMs).toBeLessThanOrEqual(5_000)
  })
})

test('a transaction without its own time limit ends when the server has closed its idle stream', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    const { db } = await scripted(streams(), { transactionTimeoutMs: Infinity })
    const idleStream = openStream(db)
    idleStream.begin()
    await idleStream.execute('insert into t values (0)')
    await vi.advanceTimersByTimeAsync(10_100)
    await expect(idleStream.commit()).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })

    const stream = openStream(db)
    stream.begin()
    await stream.execute('insert into t values (1)')
    await vi.advanceTimersByTimeAsync(9_000)
    await stream.execute('insert into t values (2)')
    await vi.advanceTimersByTimeAsync(9_900)
    expect(stream.isOpen).toBe(true)
    await vi.advanceTimersByTimeAsync(200)
    const message = expect.stringContaining('after 10 s without a request')
    const late = stream.execute('insert into t values (3)')
    await expect(late).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED', message })
  } finally {
    vi.useRealTimers()
  }
})

test('retry runs the callback again after a lost transaction, at most `retry` times', async () => {
  const { db } = await scripted((request, response, count) => {
    if (count % 2 === 1) streams()(request, response, count)
    else status(400, 'Received an invalid baton')(request, response, count)
  })
  let runs = 0
  const transaction = db.transaction(
    async (tx) => {
      runs += 1
      await tx.execute('select 1')
      await tx.execute('select 2')
    },
    { maxRetries: 2 },
  )
  await expect(transaction).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  expect(runs).toBe(3)
})

test("retry applies neither to the callback's own errors nor to lost commits", async () => {
  const { db } = await scripted(ifIncludes('COMMIT', disconnect, streams()))
  let runs = 0
  const count = (): number => (runs += 1)
  await expect(
    db.transaction((tx) => (count(), tx.execute('select 1')), { maxRetries: 5 }),
  ).rejects.toMatchObject({ code: 'NETWORK', outcome: 'unknown' })
  expect(runs).toBe(1)
  const failingTransaction = db.transaction(
    () => {
      count()
      throw new Error('own error')
    },
    { maxRetries: 5 },
  )
  await expect(failingTransaction).rejects.toThrow('own error')
  expect(runs).toBe(2)
})

test('if a whole request is rejected, the error contains the SQL only if there was a single statement', async () => {
  const error = { message: 'no SQL', code: 'SQL_PARSE_ERROR' }
  const { db } = await scripted((_, response) =>
    respond(response, { baton: null, base_url: null, results: [{ type: 'error', error }] }),
  )
  await expect(db.execute('selec 1')).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR', sql: 'selec 1' })
  const batch = db.batch(['selec 1', 'select 2'])
  await expect(batch).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR', sql: null })
})

test('the error of a script contains the position of the failing statement', async () => {
  const failed = { message: 'UNIQUE constraint failed: t.a', code: 'SQLITE_CONSTRAINT' }
  const result = { step_results: [null], step_errors: [failed] }
  const results = [{ type: 'ok', response: { type: 'batch', result } }]
  const fail: Script = (_, response) => respond(response, { baton: 'b', base_url: null, results })
  const { db } = await scripted(ifIncludes('insert', fail, streams()))
  await expect(executeMultiple(db, '\n insert into t values (1)')).rejects.toMatchObject({
    message: 'line 2, column 2: UNIQUE constraint failed: t.a',
    statementIndex: 0,
  })
})

test('a 404 from a missing database does not determine whether the server has /v3', async () => {
  const notReady = status(404, '<html>not ready</html>')
  const { db, received } = await scripted(inOrder(notReady, notReady, streams()))
  const transaction = () => db.transaction((tx) => tx.execute('select 1'))
  await expect(transaction()).rejects.toMatchObject({ status: 404 })
  await transaction()
  expect(received.map(({ url }) => url)).toEqual([
    '/v3/pipeline',
    '/v2/pipeline',
    '/v3/pipeline',
    '/v3/pipeline',
  ])
})

test('a client tells its address, without a token, and its request timeout', () => {
  const client = createClient({ url: 'libsql://h.example/base/?authToken=secret', requestTimeoutMs: 5 })
  expect([client.url, client.requestTimeoutMs]).toEqual(['https://h.example/base', 5])
  expect(createClient({ url: 'http://127.0.0.1:8080' }).url).toBe('http://127.0.0.1:8080')
})
