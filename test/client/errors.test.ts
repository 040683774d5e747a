import { inspect } from 'node:util'
import {
  createClient,
  executeMultiple,
  readRows,
  SqlError,
  StreamError,
  serverVersion,
  type Transaction,
  TransportError,
} from '@batonsql/core'
import { failWhen, isFailedAssertion, openStream, type Stream } from '@batonsql/core/adapter'
import { beforeAll, describe, expect, test } from 'vitest'
import { ENDLESS_READ, readColumn } from '../support/fixtures.ts'
import { serveHttp } from '../support/serve-http.ts'
import { openTestClient } from '../support/test-server.ts'

const { database, db } = await openTestClient()
beforeAll(() => db.batch(['create table t (a unique)', "insert into t values ('taken')"]))

const SECRET = 'an argument that must stay secret'

/** Runs a call in a named function, two calls deep. @returns the error that this function threw */
async function catchError(work: () => Promise<unknown>): Promise<Error> {
  async function caller(): Promise<void> {
    await work()
  }
  try {
    await caller()
  } catch (error) {
    return error as Error
  }
  throw new Error('expected the call to fail')
}

const inTransaction = (work: (tx: Transaction) => Promise<unknown>) => async (): Promise<unknown> =>
  await db.transaction(async (tx) => {
    await tx.execute('select 1')
    await work(tx)
  })

const unreachable = createClient({ url: 'http://127.0.0.1:9', maxRetries: 0 })
const onStream = async (work: (stream: Stream) => Promise<unknown>) => {
  await using stream = openStream(db)
  await work(stream)
}

test.each([
  ['parentheses', `select ${'('.repeat(200)}1${')'.repeat(200)}`],
  ['signs', `select ${'+'.repeat(200)}1`],
  ['subqueries', `select ${'(select '.repeat(200)}1${')'.repeat(200)}`],
])('too deeply nested %s are a syntax error: no statement of a script is executed', async (_, sql) => {
  await expect(db.execute(sql)).rejects.toMatchObject({
    code: 'SQL_PARSE_ERROR',
    message: expect.stringContaining('parser overflowed its stack'),
  })
  await expect(executeMultiple(db, `create table nested (a); ${sql}`)).rejects.toThrow('overflowed')
  expect((await db.execute("select 1 from sqlite_schema where name = 'nested'")).rows).toEqual([])
})

test("a failed assertion is known by its statement, so a batch's own invalid JSON is not one", async () => {
  const guard = (condition: string): string => `select ${failWhen(condition, 'guard')}`
  const failed = await catchError(() => db.batch([guard('true'), "select json('own')"]))
  expect([isFailedAssertion(failed, 0), isFailedAssertion(failed, 1)]).toEqual([true, false])
  const own = await catchError(() => db.batch([guard('false'), "select json('own')"]))
  expect(own).toMatchObject({ message: failed.message, statementIndex: 1 })
  expect(isFailedAssertion(own, 0)).toBe(false)
})

describe('the stack shows the caller', () => {
  test.each<[string, () => Promise<unknown>]>([
    ['execute', async () => await db.execute('selec 1')],
    ['execute that violates a constraint', async () => await db.execute("insert into t values ('taken')")],
    [
      'one of several concurrent calls',
      async () => await Promise.all([db.execute('select 1'), db.execute('selec 1')]),
    ],
    ['batch', async () => await db.batch(['select 1', "insert into t values ('taken')"])],
    ['a statement of a transaction', inTransaction(async (tx) => await tx.execute('selec 1'))],
    ['a batch of a transaction', inTransaction(async (tx) => await tx.batch(['selec 1']))],
    [
      'a statement of a savepoint',
      inTransaction(async (tx) => await tx.savepoint(async (inner) => await inner.execute('selec 1'))),
    ],
    [
      'a wait for a savepoint',
      inTransaction(async (tx) => {
        await tx.savepoint(async () => {
          await tx.execute('select 1', [], { timeoutMs: 20 })
        })
      }),
    ],
    [
      'the COMMIT of a transaction',
      async () =>
        await db.transaction(async (tx) => {
          await tx.batch([
            'create table parent (a primary key)',
            'create table child (a references parent deferrable initially deferred)',
            'insert into child values (1)',
          ])
        }),
    ],
    [
      'a statement of a stream',
      async () => await onStream(async (stream) => await stream.execute('selec 1')),
    ],
    [
      'rows',
      async () => {
        for await (const _ of readRows(db, 'selec 1'));
      },
    ],
    ['a script', async () => await executeMultiple(db, 'select 1; begin; select 2; selec 3; commit')],
    ['no connection', async () => await unreachable.execute('select 1')],
    [
      'no connection in a transaction',
      async () => await unreachable.transaction((tx) => tx.execute('select 1')),
    ],
    ['no connection for a read', async () => await serverVersion(unreachable)],
    ['no response in time', async () => await db.execute(ENDLESS_READ, [], { timeoutMs: 50 })],
    [
      'an integer that a number cannot represent',
      async () => {
        await using client = createClient({ ...database.config, intMode: 'number' })
        await client.execute('select 9007199254740993')
      },
    ],
    ['an argument that is not a value', async () => await db.execute('select ?', [undefined as never])],
  ])('%s', async (_, work) => {
    const error = await catchError(work)
    expect(error.stack).toMatch(/at (async )?caller/)
    expect(error.stack?.split(error.message)).toHaveLength(2)
  })

  test('of each call, even if several get the same error', async () => {
    await onStream(async (stream) => {
      const firstError = await catchError(async () => {
        await stream.close()
        await stream.execute('select 1')
      })
      expect(firstError).toBeInstanceOf(StreamError)
      async function secondCaller(): Promise<void> {
        await stream.execute('select 2')
      }
      const secondError: unknown = await secondCaller().catch((error: unknown) => error)
      expect((secondError as Error).stack).toContain('secondCaller')
    })
  })

  test.each([Error, TypeError, RangeError])(
    'and does not change the reason of a signal: %o',
    async (Class) => {
      const reason = new Class('own error')
      const { stack } = reason
      const error = await catchError(() => db.execute('select 1', [], { signal: AbortSignal.abort(reason) }))
      expect(error).toBe(reason)
      expect(error.stack).toBe(stack)
    },
  )

  test('and does not change the error that an observer has received', async () => {
    const received: { error: unknown; stack: string | undefined }[] = []
    await using client = createClient({
      ...database.config,
      observe: (event) => {
        if (event.type === 'query:error')
          received.push({ error: event.error, stack: (event.error as Error).stack })
      },
    })
    const error = await catchError(() => client.execute('select nowhere'))
    expect(received).toEqual([{ error, stack: (received[0]?.error as Error | undefined)?.stack }])
    expect(error.stack).toMatch(/at (async )?caller/)
  })

  test('a successful call captures no stack', async () => {
    const { stackTraceLimit, prepareStackTrace } = Error
    let captures = 0
    Error.prepareStackTrace = () => {
      captures += 1
      // tools return the frames, not a text
      return []
    }
    try {
      await db.execute('select 1')
      await inTransaction((tx) => tx.batch(['select 1']))()
      expect(captures).toBe(0)
      expect(await catchError(() => db.execute('selec 1'))).toMatchObject({ outcome: 'not_applied' })
      expect(captures).toBeGreaterThan(0)
      expect(Error.stackTraceLimit).toBe(stackTraceLimit)
    } finally {
      Error.prepareStackTrace = prepareStackTrace
    }
  })
})

describe('a printed error shows the statement, but nothing that may be secret', () => {
  const print = (error: unknown): string => inspect(error, { showHidden: true, depth: 10 })

  test('the statement, and not its arguments', async () => {
    const error = await catchError(() => db.execute('insert into nowhere values (?)', [SECRET]))
    expect(print(error)).toContain('SQL: insert into nowhere values (?)\n')
    expect(print(error)).not.toContain(SECRET)
    expect(error.message).not.toContain('insert into nowhere values')
  })

  test('the failing statement of a batch', async () => {
    const batch = ['select 1', { sql: 'insert into t values (?), (?)', args: [SECRET, SECRET] }]
    const error = await catchError(() => db.batch(batch))
    expect(error).toBeInstanceOf(SqlError)
    expect(print(error)).toContain('SQL: insert into t values (?), (?)\n')
    expect(print(error)).not.toContain(SECRET)
  })

  test('all statements that were sent, if the failing one is unknown', async () => {
    const error = await catchError(() => unreachable.batch(['select 1', { sql: 'select ?', args: [SECRET] }]))
    expect(error).toBeInstanceOf(TransportError)
    expect(print(error)).toContain('SQL: select 1; select ?\n')
    expect(print(error)).not.toContain(SECRET)
  })

  test('on one line, and truncated', async () => {
    const error = await catchError(() => db.execute(`selec\n    at\n${'x'.repeat(10_000)}`))
    expect(print(error)).toContain('SQL: selec at xxx')
    expect(print(error)).toContain('x…\n')
    expect(error.stack?.length).toBeLessThan(10_000)
    expect((error as SqlError).sql).toHaveLength(10_013)
  })

  test('the token is not shown', async () => {
    const { url } = await serveHttp((_, response) => void response.writeHead(401).end('no'))
    await using client = createClient({ url, authToken: 'hunter2' })
    const error = await catchError(() => client.execute('select ?', [SECRET]))
    expect(print(error)).toContain('SQL: select ?\n')
    expect(print(error)).not.toMatch(/hunter2|must stay secret/)
  })
})

describe('invalid configuration that only a request can reveal', () => {
  test('the error for libsql:// on a server without TLS names the URL to use instead', async () => {
    const { url } = await serveHttp((_, response) => void response.end())
    await using client = createClient({ url: url.replace('http', 'libsql'), maxRetries: 0 })
    const message = expect.stringMatching(/does not use TLS: use http:.*tls=0/) as string
    for (const work of [
      () => client.execute('select 1'),
      async () => await readRows(client, 'select 1').next(),
    ])
      await expect(work()).rejects.toMatchObject({ code: 'NETWORK', message })
    // a port without a server is not a TLS problem
    await expect(unreachable.execute('select 1')).rejects.toThrow(/^(?!.*TLS)/)
  })

  test.each([
    ['undefined', () => undefined as never, 'undefined'],
    ['a promise of undefined', async () => undefined as never, 'undefined'],
    ['number', () => 5 as never, 'a value of type number'],
  ])('rejects a token function that returns %s', async (_, authToken, returned) => {
    await using client = createClient({ ...database.config, authToken })
    const error = await catchError(() => client.execute('select 1'))
    expect(error).toBeInstanceOf(TypeError)
    expect(error.message).toBe(`authToken() must return a string, not ${returned}`)
    expect(error.stack).toMatch(/at (async )?caller/)
  })
})

describe('changes of a failed statement that SQLite keeps', () => {
  beforeAll(() =>
    db.batch([
      'create table kept (a unique)',
      'create table journal (a)',
      `create trigger reject_bad before insert on kept when new.a = 'bad'
       begin insert into journal values ('seen'); select raise(fail, 'no bad ones'); end`,
    ]),
  )
  const outcomes = [
    ['insert or fail into kept values (1), (2), (1)', 'unknown', 2],
    ['insert or/**/fail into kept values (1), (2), (1)', 'unknown', 2],
    ['insert or -- a comment\n fail into kept values (1), (2), (1)', 'unknown', 2],
    ["insert into kept values (1), ('bad')", 'unknown', 1],
    ['insert into kept values (1), (2), (1)', 'not_applied', 0],
    ['insert or abort into kept values (1), (1)', 'not_applied', 0],
  ] as const

  test.each(outcomes)(
    '%s: %s, unless its transaction or its batch is rolled back',
    async (sql, outcome, count) => {
      const inContinuedTransaction = async (): Promise<void> => {
        throw await db.transaction((tx) => tx.execute(sql).catch((error: unknown) => error))
      }
      const cases: [() => Promise<unknown>, string, number][] = [
        [() => db.execute(sql), outcome, count],
        [inContinuedTransaction, outcome, count],
        [() => db.transaction((tx) => tx.execute(sql)), 'not_applied', 0],
        [() => db.batch([sql]), 'not_applied', 0],
      ]
      for (const [call, expectedOutcome, kept] of cases) {
        await db.execute('delete from kept')
        await expect(call()).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT', outcome: expectedOutcome })
        expect(await readColumn(db, 'select count(*) from kept')).toEqual([kept])
      }
    },
  )
})
