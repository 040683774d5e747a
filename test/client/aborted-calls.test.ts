import { setTimeout as pause } from 'node:timers/promises'
import { type Client, coalesce, createClient, readRows, SqlError, type TransactionMode } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { NO_FAULT } from '../support/fault-proxy.ts'
import { createClientWithHeldResponses, openFaultyDatabase } from '../support/faulty-database.ts'
import { ENDLESS_READ, ENDLESS_WRITE, holdWriteLock, readColumn, settlesBefore } from '../support/fixtures.ts'
import { expectNoStall } from '../support/no-stall.ts'

// An aborted call settles at once, and its stream is closed, so that no other call has to wait: for a stream that is not closed,
// the server keeps the write lock for up to 5 s.
const { server, database, direct, proxy } = await openFaultyDatabase()
beforeEach(() => direct.batch(['drop table if exists t', 'create table t (a)']))
const readValues = () => readColumn(direct, 'select a from t')
const insert = (a: number): string => `insert into t values (${a})`
/** Writes with another client, which must not have to wait for the lock. */
const writeWithOtherClient = (): Promise<unknown> => expectNoStall(() => direct.execute(insert(0)))

type HeldClient = ReturnType<typeof createClientWithHeldResponses>
const isCommit = (body: string): boolean => body.includes('COMMIT')

const CAUSES = ['by a signal', 'by its timeout'] as const
const TIMEOUT = { code: 'TIMEOUT', outcome: 'not_applied' }

/**
 * Aborts a call once `reached` is fulfilled, by a signal or by its time limit. A limit that passes earlier, as on a busy machine, is
 * doubled, and the call repeated.
 * @returns the reason with which the call rejected
 */
async function abortWhen(
  cause: (typeof CAUSES)[number],
  call: (options: { signal: AbortSignal } | { timeoutMs: number }) => {
    readonly result: Promise<unknown>
    readonly reached: Promise<unknown>
  },
): Promise<unknown> {
  for (let timeoutMs = 200; ; timeoutMs *= 2) {
    const controller = new AbortController()
    const { result, reached } = call(cause === 'by a signal' ? { signal: controller.signal } : { timeoutMs })
    const reason = result.catch((error: unknown) => error)
    if (await settlesBefore(reason, reached)) continue
    controller.abort(new Error('stopped'))
    return await reason
  }
}

/** Aborts a call of a client whose matching responses are held, once one of them is. */
async function abortHeld(
  cause: (typeof CAUSES)[number],
  call: (db: Client, options: { signal: AbortSignal } | { timeoutMs: number }) => Promise<unknown>,
  isHeld?: (body: string) => boolean,
): Promise<HeldClient & { readonly reason: unknown }> {
  const clients: HeldClient[] = []
  const reason = await abortWhen(cause, (options) => {
    const client = createClientWithHeldResponses(database, proxy, isHeld)
    clients.push(client)
    return { result: call(client.db, options), reached: client.arrived }
  })
  return { ...(clients.at(-1) as HeldClient), reason }
}

describe('a transaction that is aborted', () => {
  const errorOf = (cause: (typeof CAUSES)[number]) =>
    cause === 'by a signal' ? { message: 'stopped' } : TIMEOUT

  test.each(CAUSES)(
    '%s, while a statement is in flight: rejects at once, and releases its lock',
    async (cause) => {
      const { db, releaseResponse, reason } = await abortHeld(cause, (client, options) =>
        client.transaction((tx) => tx.execute(insert(1)), options),
      )
      expect(reason).toMatchObject(errorOf(cause))
      releaseResponse()
      await writeWithOtherClient()
      await db.close()
      expect(await readValues()).toEqual([0])
    },
  )

  test.each(CAUSES)(
    '%s, while its callback waits for something else: rejects at once, and accepts no statement',
    async (cause) => {
      await using db = createClient(database.config)
      const resume = Promise.withResolvers<void>()
      let late: Promise<unknown> | undefined
      const reason = await abortWhen(cause, (options) => {
        const waiting = Promise.withResolvers<void>()
        const result = db.transaction(async (tx) => {
          await tx.execute(insert(1))
          waiting.resolve()
          await resume.promise
          late = expect(tx.execute(insert(2))).rejects.toBeDefined()
        }, options)
        return { result, reached: waiting.promise }
      })
      expect(reason).toMatchObject(errorOf(cause))
      await writeWithOtherClient()
      resume.resolve()
      await expect.poll(() => late).toBeDefined()
      await late
      expect(await readValues()).toEqual([0])
    },
  )

  test.each(CAUSES)('%s, in a savepoint: undoes the whole transaction', async (cause) => {
    await using db = createClient(database.config)
    const reason = await abortWhen(cause, (options) => {
      const waiting = Promise.withResolvers<void>()
      const result = db.transaction(async (tx) => {
        await tx.execute(insert(1))
        await tx.savepoint(async (inner) => {
          await inner.execute(insert(2))
          waiting.resolve()
          await new Promise(() => {})
        })
      }, options)
      return { result, reached: waiting.promise }
    })
    expect(reason).toMatchObject(errorOf(cause))
    await writeWithOtherClient()
    expect(await readValues()).toEqual([0])
  })

  test('by its timeout, during its COMMIT: the outcome is unknown', async () => {
    const { db, releaseResponse, reason } = await abortHeld(
      'by its timeout',
      (client, options) => client.transaction((tx) => tx.execute(insert(1)), options),
      isCommit,
    )
    expect(reason).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
    releaseResponse()
    await db.close()
    expect(await readValues()).toEqual([1])
  })

  test('before it begins: does not delay the end of its client', async () => {
    const db = createClient(database.config)
    const signal = AbortSignal.abort(new Error('stopped'))
    await expect(db.transaction(() => {}, { signal })).rejects.toThrow('stopped')
    await db.close({ drainMs: Infinity })
  })

  test('before it begins, or before it runs again, is not run', async () => {
    await using db = createClient(database.config)
    const callback = vi.fn()
    const signal = AbortSignal.abort(new Error('stopped'))
    await expect(db.transaction(callback, { signal })).rejects.toThrow('stopped')
    expect(callback).not.toHaveBeenCalled()
    const controller = new AbortController()
    const failing = db.transaction(
      async (tx) => {
        callback()
        await tx.execute('select 1')
        controller.abort(new Error('stopped'))
        throw new SqlError({ message: 'busy', code: 'SQLITE_BUSY' })
      },
      { signal: controller.signal, maxRetries: 3 },
    )
    await expect(failing).rejects.toThrow('stopped')
    expect(callback).toHaveBeenCalledTimes(1)
  })

  test('after its COMMIT was not aborted: keeps its result, and removes its listener', async () => {
    await using db = createClient(database.config)
    const controller = new AbortController()
    const { signal } = controller
    const added = vi.spyOn(signal, 'addEventListener')
    const removed = vi.spyOn(signal, 'removeEventListener')
    await db.transaction((tx) => tx.execute(insert(1)), { signal, timeoutMs: 60_000 })
    controller.abort()
    expect(added.mock.calls.length).toBeGreaterThan(0)
    expect(removed.mock.calls.length).toBe(added.mock.calls.length)
    expect(await readValues()).toEqual([1])
  })
})

describe('a call that is aborted while its response is in flight', () => {
  test.each(CAUSES)('%s: rejects at once, and its write lock is released', async (cause) => {
    const { db, releaseResponse, reason } = await abortHeld(cause, (client, options) =>
      client.transaction((tx) => tx.execute(insert(1), [], options)),
    )
    const timeout = { code: 'TRANSACTION_LOST', cause: { code: 'TIMEOUT' } }
    expect(reason).toMatchObject(cause === 'by a signal' ? { message: 'stopped' } : timeout)
    releaseResponse()
    await writeWithOtherClient()
    expect(await readValues()).toEqual([0])
    await db.close()
  })

  test('an aborted commit may have been applied, and its outcome is unknown', async () => {
    const { db, releaseResponse } = createClientWithHeldResponses(database, proxy, isCommit)
    await using _db = db
    await using stream = openStream(db)
    stream.begin()
    await stream.execute(insert(1))
    const timeout = { code: 'TIMEOUT', outcome: 'unknown' }
    await expect(stream.commit({ timeoutMs: 60 })).rejects.toMatchObject(timeout)
    releaseResponse()
    expect(stream.inTransaction).toBe(false)
    await writeWithOtherClient()
    expect(await readValues()).toEqual([1, 0])
  })

  test('if a read outside a transaction times out, its request is aborted, so that the server stops the statement', async () => {
    await using db = createClient(database.config)
    await expect(db.execute(ENDLESS_READ, [], { timeoutMs: 60 })).rejects.toMatchObject({ code: 'TIMEOUT' })
    await writeWithOtherClient()
  })
})

describe('close', () => {
  test('during a write rejects the call at once, with an unknown outcome', async () => {
    const db = createClient(database.config)
    const requestsBefore = database.requestCount()
    const call = db.execute(ENDLESS_WRITE)
    const rejection = { name: 'TransportError', code: 'CLOSED', outcome: 'unknown' }
    const rejected = expect(call).rejects.toMatchObject(rejection)
    await expect.poll(() => database.requestCount() - requestsBefore).toBe(1)
    const closed = db.close()
    expect(await settlesBefore(call, closed)).toBe(true)
    await rejected
    await closed
    await writeWithOtherClient()
  })

  test('during a transaction applies none of it', async () => {
    const db = createClient(database.config)
    let requestsBefore = Infinity
    const transaction = db.transaction(async (tx) => {
      await tx.execute(insert(1))
      requestsBefore = database.requestCount()
      await tx.execute(ENDLESS_WRITE)
    })
    const rejected = expect(transaction).rejects.toMatchObject({ outcome: 'not_applied' })
    await expect.poll(() => database.requestCount() - requestsBefore).toBe(1)
    await db.close()
    await rejected
    await writeWithOtherClient()
    expect(await readValues()).toEqual([0])
  })

  test('aborts calls that wait for a token', async () => {
    const db = createClient({ ...database.config, authToken: () => new Promise<string>(() => {}) })
    const call = db.execute(insert(1))
    const rejection = expect(call).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
    await pause(10)
    await db.close()
    await rejection
  })
})

describe('before a request is sent', () => {
  test('an abort while the token is fetched affects only that call, and the transaction continues', async () => {
    let isSlow = false
    const token = database.authToken ?? ''
    await using db = createClient({
      ...database.config,
      authToken: () => (isSlow ? pause(60, token) : token),
    })
    await db.transaction(async (tx) => {
      await tx.execute(insert(1))
      isSlow = true
      const reason = new Error('changed my mind')
      const controller = new AbortController()
      const aborted = tx.execute(insert(2), [], { signal: controller.signal })
      const concurrent = tx.execute(insert(3))
      setTimeout(() => controller.abort(reason), 20)
      await expect(aborted).rejects.toBe(reason)
      await concurrent
    })
    expect(await readValues()).toEqual([1, 3])
  })

  test('queued writes that time out are not sent, so none of them has an unknown outcome', async () => {
    await using db = createClient({ ...database.config, concurrency: 2 })
    const release = await holdWriteLock(direct)
    const calls = await Promise.allSettled(
      Array.from({ length: 400 }, () => db.execute(insert(1), [], { timeoutMs: 500 })),
    )
    await release()
    const withOutcome = (outcome: string): unknown[] =>
      calls.filter((call) => call.status === 'rejected' && call.reason.outcome === outcome)
    // the two with a write permit were waiting for the lock when they timed out
    expect(withOutcome('unknown')).toHaveLength(2)
    expect(withOutcome('not_applied')).toHaveLength(398)
  })
})

describe('many transactions at once', () => {
  test('are queued in the client, which sends at most two of them to the server at a time', async () => {
    let openTransactions = 0
    let maxOpenTransactions = 0
    proxy.next = (body) => {
      if (body.includes('BEGIN IMMEDIATE'))
        maxOpenTransactions = Math.max(maxOpenTransactions, (openTransactions += 1))
      if (body.includes('"close"')) openTransactions -= 1
      return NO_FAULT
    }
    await using db = createClient({ ...database.config, url: proxy.url })
    const run = (i: number) => db.transaction((tx) => tx.execute('insert into t values (?)', [i]))
    await Promise.all(Array.from({ length: 24 }, (_, i) => run(i)))
    expect(maxOpenTransactions).toBe(2)
    expect((await direct.execute('select count(*) as n from t')).rows).toEqual([{ n: 24 }])
  })

  test('wait in the queue until they time out with an error that states what they waited for', async () => {
    await using db = createClient({ ...database.config, writeLockTimeoutMs: 120 })
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const hold = () =>
      db.transaction(async (tx) => {
        await tx.execute(insert(1))
        await released
      })
    const [first, second, third] = [hold(), hold(), hold()]
    const message =
      'waited 0.12 s for the write lock behind 2 transactions of this client (writeLockTimeoutMs)'
    await expect(third).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied', message })
    release()
    await Promise.all([first, second])
  })

  test('have no effect if they are aborted while they are queued', async () => {
    await using db = createClient(database.config)
    const lockHeld = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    const holder = db.transaction(async (tx) => {
      await tx.execute(insert(1))
      lockHeld.resolve()
      await released.promise
    })
    await lockHeld.promise
    const queued = Array.from({ length: 10 }, () =>
      db.transaction((tx) => tx.execute(insert(2), [], { signal: AbortSignal.timeout(30) })),
    )
    for (const transaction of queued)
      await expect(transaction).rejects.toMatchObject({ name: 'TimeoutError' })
    released.resolve()
    await holder
    await db.transaction((tx) => tx.execute(insert(3)))
    expect(await readValues()).toEqual([1, 3])
  })
})

describe.runIf(inject('target') !== 'url')('a call on the client inside a transaction callback', () => {
  test.each([
    ['a transaction', (db: Client) => db.transaction((tx) => tx.execute(insert(2)))],
    ['a statement', (db: Client) => db.execute(insert(2))],
    ['a batch', (db: Client) => db.batch([insert(2)])],
  ])(
    '%s: the transaction expires, the error mentions the call, and only the write of the call is applied',
    async (_, call) => {
      await using db = createClient({ ...database.config, transactionTimeoutMs: 300 })
      const transaction = db.transaction(async (tx) => {
        await tx.execute(insert(1))
        await call(db)
      })
      const message = expect.stringMatching(
        /another call of this client waited for the write lock.*own handle/,
      )
      await expect(transaction).rejects.toMatchObject({
        code: 'TRANSACTION_EXPIRED',
        outcome: 'not_applied',
        message,
      })
      expect(await readValues()).toEqual([2])
    },
  )

  /** Calls that take over the write lock on the server, before the transaction's own time limit. */
  const TAKEOVERS: Record<string, (db: Client) => Promise<unknown>> = {
    'a transaction': (db) => db.transaction((tx) => tx.execute(insert(2))),
    'a deferred transaction': (db) =>
      db.transaction(
        async (tx) => {
          await tx.execute('select 1')
          await tx.execute(insert(2))
        },
        { mode: 'deferred' },
      ),
    'a statement': (db) => db.execute(insert(2)),
    'a batch': (db) => db.batch([insert(2)]),
    'rows of a write': async (db) => {
      for await (const _ of readRows(db, 'insert into t values (2) returning a'));
    },
    'a stream in use': async (db) => {
      await using stream = openStream(db)
      await stream.execute('select 1')
      await stream.execute(insert(2))
    },
  }
  const takeOver = async (
    call: (db: Client, other: Client) => Promise<unknown>,
    mode?: TransactionMode,
  ): Promise<Error> => {
    const { config } = await server.createDatabase()
    await using db = createClient({ ...config, transactionTimeoutMs: Infinity })
    await using other = createClient(config)
    await db.execute('create table t (a)')
    const transaction = db.transaction(
      async (tx) => {
        await tx.execute('select 1')
        await tx.execute(insert(1))
        await tx.execute(insert(1))
        await call(db, other)
        await tx.execute('select 1')
      },
      { mode },
    )
    const error = (await transaction.catch((reason: unknown) => reason)) as Error
    expect(error).toMatchObject({ code: 'TRANSACTION_EXPIRED', outcome: 'not_applied' })
    expect((await db.execute('select a from t')).rows).toEqual([{ a: 2 }])
    return error
  }

  test.concurrent.each(Object.entries(TAKEOVERS))(
    '%s takes over the write lock: the error mentions the call',
    async (_, call) => {
      const message = /another writer took the write lock.*another call of this client.*own handle/
      expect((await takeOver(call)).message).toMatch(message)
    },
  )

  test.concurrent.each(['immediate', 'deferred'] as const)(
    'the error does not mention it if another client has taken over the lock (%s)',
    async (mode) => {
      const error = await takeOver((_, other) => other.execute(insert(2)), mode)
      expect(error.message).toMatch(/another writer took the write lock after 5 s \(/)
    },
  )

  test('a deferred transaction whose snapshot is outdated by it: the error mentions the call', async () => {
    const run = (writer: Client): Promise<unknown> =>
      direct.transaction(
        async (tx) => {
          await tx.execute('select * from t')
          await writer.execute(insert(2))
          await tx.execute(insert(1))
        },
        { mode: 'deferred' },
      )
    const busy = { code: 'SQLITE_BUSY', outcome: 'not_applied' }
    const own = await run(direct).catch((reason: unknown) => reason)
    const message = expect.stringMatching(/another call of this client.*own handle/)
    expect(own).toMatchObject({ ...busy, message })
    await using other = createClient(database.config)
    const foreign = await run(other).catch((reason: unknown) => reason)
    expect(foreign).toMatchObject({ ...busy, message: 'SQLite error: database is locked' })
  })

  const SHORT_TIMEOUT = { timeoutMs: 300 }
  test.each([
    ['a transaction', (db: Client) => db.transaction((tx) => tx.execute(insert(2), [], SHORT_TIMEOUT))],
    ['a statement', (db: Client) => db.execute(insert(2), [], SHORT_TIMEOUT)],
    ['a batch', (db: Client) => db.batch([insert(2)], SHORT_TIMEOUT)],
  ])('%s with its own, shorter timeout: the error states what it waited for', async (_, call) => {
    for (const coalesceOption of [undefined, coalesce]) {
      await using db = createClient({ ...database.config, coalesce: coalesceOption })
      const transaction = db.transaction(async (tx) => {
        await tx.execute(insert(1))
        await call(db)
      })
      const message = /within 300 ms; another transaction of this client held the write lock.*own handle/
      await expect(transaction).rejects.toThrow(message)
    }
  })

  test('a write that a callback does not await waits until the transaction ends, even if the callback does other work', async () => {
    await using db = createClient(database.config)
    let write: Promise<unknown> | undefined
    let pragma: Promise<unknown> | undefined
    await db.transaction(async (tx) => {
      await tx.execute(insert(1))
      write = db.execute(insert(2))
      pragma = db.execute('pragma table_info(t)')
      await pause(500)
    })
    await Promise.all([write, pragma])
    expect((await direct.execute('select a from t order by a')).rows).toEqual([{ a: 1 }, { a: 2 }])
  })

  test('a write that a callback does not await is applied after the transaction', async () => {
    await using db = createClient(database.config)
    let write: Promise<unknown> | undefined
    await db.transaction(async (tx) => {
      await tx.execute(insert(1))
      write = db.execute(insert(2))
      for (const a of [3, 4, 5]) {
        await pause(30)
        await tx.execute('insert into t values (?)', [a])
      }
    })
    await write
    expect(await readValues()).toEqual([1, 3, 4, 5, 2])
  })

  test('neither a read-only transaction nor a read by another client waits for the transaction', async () => {
    await using db = createClient(database.config)
    await db.transaction(async (tx) => {
      await tx.execute(insert(1))
      await db.transaction((read) => read.execute('select count(*) from t'), { mode: 'readonly' })
      await direct.execute('select count(*) from t')
    })
  })
})
