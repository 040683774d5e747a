import { expect, test } from 'vitest'
import { respond, row, type Script, scripted, status, streams } from '../../test-support/scripted-server.ts'
import { coalesce } from './coalescer.ts'

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
  expect(getStatements(received).filter((statements) => statements.length > 0)).toEqual([
    ['select 1', 'select 4'],
  ])
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
  const fulfilled = { status: 'fulfilled' }
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
  expect(outcomes).toMatchObject([
    { status: 'fulfilled' },
    { reason: { code: 'PROTOCOL', outcome: 'unknown' } },
    { status: 'fulfilled' },
  ])
})

test('a read that times out has changed nothing', async () => {
  const { db, received } = await scripted(() => {}, { coalesce })
  const read = db.execute('select 1', [], { timeoutMs: 100 })
  const outcome = expect(read).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
  await expect.poll(() => received.length).toBe(1)
  await outcome
})

test('when all calls are aborted, the connection is dropped', async () => {
  const ends: unknown[] = []
  const { db, received } = await scripted(
    (_, response) => void response.on('close', () => ends.push(response.writableFinished)),
    { coalesce },
  )
  const calls = [1, 2].map((n) => db.execute(`select ${n}`, [], { timeoutMs: 50 * n }))
  expect((await Promise.allSettled(calls)).map(({ status: outcome }) => outcome)).toEqual([
    'rejected',
    'rejected',
  ])
  await expect.poll(() => ends).toEqual([false])
  expect(received).toHaveLength(1)
})

test.each([{}, 'yes', 1])('coalesce: %j is rejected', async (coalesce) => {
  await expect(scripted(streams(), { coalesce: coalesce as never })).rejects.toThrow(
    'coalesce must be function',
  )
})
