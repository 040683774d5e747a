import fc from 'fast-check'
import { beforeEach, expect, test, vi } from 'vitest'
import { createClient } from '../client/client.ts'
import { readRows } from '../client/read-rows.ts'
import type { ClientConfig } from '../config.ts'
import { describe } from '../endpoints/describe.ts'

beforeEach(() => void vi.useFakeTimers())

/** A replica, and its primary. Requests for a newer index wait until it has been received. */
class Replica {
  /** The index that each read required. */
  readonly reads: (string | null)[] = []
  probes = 0
  /** What the replica has received. */
  index = 5
  /** What its primary has, if not the same; `down` if it does not respond. */
  primary: number | 'down' | null = null
  responseMs = 100
  /** How long an aborted request takes to settle. */
  abortMs = 0
  readonly #waiting = new Set<() => void>()
  readonly fetch: ClientConfig['fetch'] = async (url, { body = '', signal }) => {
    const requiredIndex = /"replication_index":"(\d+)"/.exec(body)?.[1] ?? null
    const isWrite = body.includes('insert')
    const isProbe = body.includes('BEGIN') && !isWrite
    if (isProbe) this.probes += 1
    else if (!isWrite) this.reads.push(requiredIndex)
    await new Promise<void>((resolve, reject) => {
      const end = () => setTimeout(reject, this.abortMs, new Error('aborted'))
      signal.addEventListener('abort', end)
      if (signal.aborted) end()
      const respond = () => {
        if (isProbe ? this.primary === 'down' : !isWrite && Number(requiredIndex) > this.index) return
        this.#waiting.delete(respond)
        setTimeout(resolve, isProbe ? 10 : this.responseMs)
      }
      this.#waiting.add(respond)
      respond()
    })
    const text = url.includes('cursor') ? this.#rows : this.#respond(isWrite)
    return {
      status: 200,
      text: async () => text,
      body: ReadableStream.from([new TextEncoder().encode(text)]),
    }
  }

  receive(index: number): void {
    this.index = index
    for (const respond of this.#waiting) respond()
  }

  #respond(isWrite: boolean): string {
    const primary = this.primary ?? this.index
    const results = [isWrite ? primary : this.index, primary].map((index) => {
      const result = `{"cols":[],"rows":[],"affected_row_count":0,"last_insert_rowid":null,"replication_index":"${index}"}`
      return `{"type":"ok","response":{"type":"execute","result":${result}}}`
    })
    return `{"baton":null,"base_url":null,"results":[${results.join()},{"type":"ok","response":{"type":"close"}}]}`
  }

  get #rows(): string {
    const end = '{"type":"step_end","affected_row_count":0,"last_insert_rowid":null}'
    return `{"baton":null}\n{"type":"step_begin","step":0,"cols":[]}\n${end}\n`
  }

  client(config: Partial<ClientConfig> = {}) {
    return createClient({ url: 'http://x', fetch: this.fetch, ...config })
  }
}

/** Starts a replica, and a client that requires its index to be 100. */
const requiringIndex = (config: Partial<ClientConfig> = {}) => {
  const replica = new Replica()
  return { replica, db: replica.client({ minReplicationIndex: 100, ...config }) }
}

/** Advances the clock, and then returns the outcomes of the calls. */
async function getOutcomesAfter(ms: number, calls: readonly Promise<unknown>[]) {
  const settled = calls.map((call) =>
    call.then(
      () => 'ok',
      (error: unknown) => String(error),
    ),
  )
  await vi.advanceTimersByTimeAsync(ms)
  return await Promise.all(settled.map((outcome) => Promise.race([outcome, Promise.resolve('not yet')])))
}
const READ = 'select 1 -- mine'
const WRITE = 'insert into t values (1)'

test('reads that are queued for longer than a replica may take to catch up are not affected', async () => {
  const replica = new Replica()
  const db = replica.client({ concurrency: 4 })
  expect(await getOutcomesAfter(100, [db.execute(READ)])).toEqual(['ok'])
  const calls = Array.from({ length: 300 }, () => db.execute(READ))
  expect(new Set(await getOutcomesAfter(7_500, calls))).toEqual(new Set(['ok']))
  expect(replica.probes).toBe(0)
  expect(replica.reads.length).toBe(301)
})

test('the description of a statement waits for the index, too', async () => {
  const { replica, db } = requiringIndex()
  const [outcome] = await getOutcomesAfter(100, [describe(db, READ)])
  expect([outcome, replica.reads]).toEqual(['not yet', ['100']])
})

test('slow reads share one request for the index, and send no other once the replica has reached it', async () => {
  const replica = new Replica()
  const db = replica.client({ minReplicationIndex: 5 })
  replica.responseMs = 20_000
  const calls = Array.from({ length: 20 }, () => db.execute(READ))
  expect(new Set(await getOutcomesAfter(20_000, calls))).toEqual(new Set(['ok']))
  expect(replica.probes).toBe(1)
  expect(replica.reads.length).toBe(20)
})

test('an index that the primary does not have is reset to the index of the primary, also for queued reads', async () => {
  const { replica, db } = requiringIndex({ concurrency: 2 })
  const calls = Array.from({ length: 20 }, () => db.execute(READ))
  expect(new Set(await getOutcomesAfter(3_500, calls))).toEqual(new Set(['ok']))
  expect(replica.probes).toBe(1)
  // the two reads that were waiting
  expect(replica.reads.filter((requiredIndex) => requiredIndex === '100').length).toBe(2)
  expect(db.replicationIndex).toBe('5')
})

test('reads wait for a slow replica, however long it takes, and the index does not decrease', async () => {
  const { replica, db } = requiringIndex()
  replica.primary = 100
  const calls = Array.from({ length: 20 }, () => db.execute(READ))
  expect(new Set(await getOutcomesAfter(29_000, calls))).toEqual(new Set(['not yet']))
  expect([db.replicationIndex, replica.probes]).toEqual(['100', 14])
  replica.receive(100)
  expect(new Set(await getOutcomesAfter(200, calls))).toEqual(new Set(['ok']))
  expect(replica.reads).toEqual(Array.from({ length: 20 }, () => '100'))
})

test('a read of a replica that does not catch up is rejected at its deadline, and the error says so', async () => {
  const { replica, db } = requiringIndex()
  replica.primary = 100
  expect(await getOutcomesAfter(30_000, [db.execute(READ)])).toEqual([
    expect.stringContaining('within 30000 ms; its replica has not received what this client has written'),
  ])
  expect(await getOutcomesAfter(30_000, [db.execute(READ, [], { timeoutMs: 500 })])).toEqual([
    expect.stringMatching(/within 500 ms$/),
  ])
  expect(db.replicationIndex).toBe('100')
})

test('without a response from the primary, reads wait; when it responds with a lower index, they are sent again', async () => {
  const { replica, db } = requiringIndex()
  replica.primary = 'down'
  const call = db.execute(READ)
  expect(await getOutcomesAfter(20_000, [call])).toEqual(['not yet'])
  expect(db.replicationIndex).toBe('100')
  replica.primary = 1
  expect(await getOutcomesAfter(5_000, [call])).toEqual(['ok'])
  expect([db.replicationIndex, replica.reads]).toEqual(['5', ['100', '1']])
})

test('after a short time limit, the index is reset for the next read', async () => {
  const { db } = requiringIndex()
  const outcomes = await getOutcomesAfter(600, [db.execute(READ, [], { timeoutMs: 500 })])
  expect([outcomes, db.replicationIndex]).toEqual([[expect.stringContaining('within 500 ms')], '5'])
  expect(await getOutcomesAfter(100, [db.execute(READ)])).toEqual(['ok'])
})

test('an index that was reset and is received again is waited for again', async () => {
  const { replica, db } = requiringIndex()
  expect(await getOutcomesAfter(2_200, [db.execute(READ)])).toEqual(['ok'])
  replica.receive(100)
  expect(await getOutcomesAfter(100, [db.execute(READ)])).toEqual(['ok'])
  replica.index = 99
  replica.primary = 100
  const calls = [db.execute(READ)]
  expect(await getOutcomesAfter(20_000, calls)).toEqual(['not yet'])
  expect(db.replicationIndex).toBe('100')
  replica.receive(101)
  expect(await getOutcomesAfter(100, calls)).toEqual(['ok'])
})

test('generated histories: an index decreases only after the primary has begun to count again', async () => {
  const action = fc.constantFrom('write', 'write', 'read', 'read', 'receive', 'restart', 'wait')
  const histories = fc.array(fc.tuple(action, fc.integer({ min: 0, max: 6_000 })), { maxLength: 25 })
  await fc.assert(
    fc.asyncProperty(histories, async (history) => {
      const replica = new Replica()
      replica.primary = 5
      const db = replica.client({ minReplicationIndex: 5, requestTimeoutMs: 10_000 })
      let hasRestarted = false
      for (const [name, ms] of history) {
        const index = Number(db.replicationIndex)
        if (name === 'write') {
          replica.primary += 1
          void db.execute(WRITE)
        } else if (name === 'restart') {
          replica.primary = 1
          replica.index = 1
          hasRestarted = true
        } else if (name === 'receive') replica.receive(replica.primary)
        else if (name === 'read') void db.execute(READ).catch(() => {})
        await vi.advanceTimersByTimeAsync(ms)
        const decreases = Number(db.replicationIndex) < index
        if (decreases) expect([hasRestarted, db.replicationIndex]).toEqual([true, String(replica.primary)])
      }
      // no read waits for an index that will never exist
      const call = db.execute(READ)
      replica.receive(replica.primary)
      expect(await getOutcomesAfter(5_000, [call])).toEqual(['ok'])
      await db.close()
    }),
  )
})

test('a deadline that passes during the wait is a timeout', async () => {
  const replica = new Replica()
  replica.abortMs = 50
  for (const timeoutMs of [2_009, 2_010, 2_011, 2_030]) {
    const db = replica.client({ minReplicationIndex: 100 })
    const [outcome] = await getOutcomesAfter(3_000, [db.execute(READ, [], { timeoutMs })])
    expect(outcome).toMatch(/^TransportError: no response/)
  }
})

test('after a wait that ends early, the call has only the rest of its time limit', async () => {
  const { replica, db } = requiringIndex()
  replica.responseMs = 1_000
  expect(await getOutcomesAfter(2_700, [db.execute(READ, [], { timeoutMs: 2_600 })])).toEqual([
    expect.stringMatching(/^TransportError: no response/),
  ])
})

test('a read that is retried while the client is being closed with drainMs finishes', async () => {
  const { db } = requiringIndex()
  const call = db.execute(READ)
  await vi.advanceTimersByTimeAsync(1_000)
  const closed = db.close({ drainMs: 10_000 })
  expect(await getOutcomesAfter(1_200, [call])).toEqual(['ok'])
  await closed
  expect(await getOutcomesAfter(0, [db.execute(READ)])).toEqual(['TransportError: the client is closed'])
})

test('a cursor has its full idle timeout', async () => {
  const { replica, db } = requiringIndex()
  replica.responseMs = 2_500
  const read = async () => {
    for await (const _ of readRows(db, READ, [], { timeoutMs: 3_000 }));
  }
  expect(await getOutcomesAfter(5_000, [read()])).toEqual(['ok'])
  expect(replica.reads).toEqual(['100', '5'])
})

test('readYourWrites: false sends no index, not even `minReplicationIndex`', async () => {
  const replica = new Replica()
  const db = replica.client({ readYourWrites: false, minReplicationIndex: 100 })
  expect(await getOutcomesAfter(100, [db.execute(READ)])).toEqual(['ok'])
  expect(replica.reads).toEqual([null])
  expect(db.replicationIndex).toBe(null)
})

test('a server that returns an invalid index is not considered behind', async () => {
  const replica = new Replica()
  const db = replica.client({ minReplicationIndex: 9 })
  replica.index = 1.5
  const [outcome] = await getOutcomesAfter(60_000, [db.execute(READ, [], { timeoutMs: 30_000 })])
  expect(outcome).toMatch(/^TransportError: no response/)
  expect(db.replicationIndex).toBe('9')
})
