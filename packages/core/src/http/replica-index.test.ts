import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createClient } from '../client/client.ts'
import { readRows } from '../client/read-rows.ts'
import type { ClientConfig } from '../config.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A server with a replication index. Requests for a newer index wait. */
class Replica {
  readonly reads: (string | null)[] = []
  probes = 0
  index = 5
  responseMs = 100
  /** How long an aborted request takes to settle. */
  abortMs = 0
  readonly fetch: ClientConfig['fetch'] = async (url, { body = '', signal }) => {
    const requiredIndex = /"replication_index":"(\d+)"/.exec(body)?.[1] ?? null
    if (body.includes('mine')) this.reads.push(requiredIndex)
    else this.probes += 1
    const isStuck = requiredIndex !== null && Number(requiredIndex) > this.index
    await new Promise<void>((resolve, reject) => {
      const end = () => setTimeout(reject, this.abortMs, new Error('aborted'))
      signal.addEventListener('abort', end)
      if (signal.aborted) end()
      if (!isStuck) setTimeout(resolve, body.includes('mine') ? this.responseMs : 10)
    })
    const text = url.includes('cursor') ? this.#rows : this.#response
    return {
      status: 200,
      text: async () => text,
      body: ReadableStream.from([new TextEncoder().encode(text)]),
    }
  }

  get #response(): string {
    const index = `"replication_index":"${this.index}"`
    const result = `{"cols":[],"rows":[],"affected_row_count":0,"last_insert_rowid":null,${index}}`
    const execute = `{"type":"ok","response":{"type":"execute","result":${result}}}`
    return `{"baton":null,"base_url":null,"results":[${execute},{"type":"ok","response":{"type":"close"}}]}`
  }

  get #rows(): string {
    const end = '{"type":"step_end","affected_row_count":0,"last_insert_rowid":null}'
    return `{"baton":null}\n{"type":"step_begin","step":0,"cols":[]}\n${end}\n`
  }

  client(config: Partial<ClientConfig> = {}) {
    return createClient({ url: 'http://x', fetch: this.fetch, ...config })
  }
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

test('reads that are queued for longer than a replica may take to catch up are not affected', async () => {
  const replica = new Replica()
  const db = replica.client({ concurrency: 4 })
  expect(await getOutcomesAfter(100, [db.execute(READ)])).toEqual(['ok'])
  const calls = Array.from({ length: 300 }, () => db.execute(READ))
  expect(new Set(await getOutcomesAfter(7_500, calls))).toEqual(new Set(['ok']))
  expect(replica.probes).toBe(0)
  expect(replica.reads.length).toBe(301)
})

test('slow reads share one request for the index', async () => {
  const replica = new Replica()
  const db = replica.client({ minReplicationIndex: 5 })
  replica.responseMs = 3_000
  const calls = Array.from({ length: 20 }, () => db.execute(READ))
  expect(new Set(await getOutcomesAfter(3_000, calls))).toEqual(new Set(['ok']))
  expect(replica.probes).toBe(1)
  expect(replica.reads.length).toBe(20)
})

test('an index that is never reached is checked once; queued reads no longer wait for it', async () => {
  const replica = new Replica()
  const db = replica.client({ minReplicationIndex: 100, concurrency: 2 })
  const calls = Array.from({ length: 20 }, () => db.execute(READ))
  expect(new Set(await getOutcomesAfter(3_500, calls))).toEqual(new Set(['ok']))
  expect(replica.probes).toBe(1)
  // the two reads that were waiting; the others were sent without an index or with a newer one
  expect(replica.reads.filter((requiredIndex) => requiredIndex === '100').length).toBe(2)
  expect(db.replicationIndex).toBe('5')
})

test('an index that was reset and is received again is checked again', async () => {
  const replica = new Replica()
  const db = replica.client({ minReplicationIndex: 100 })
  expect(await getOutcomesAfter(2_200, [db.execute(READ)])).toEqual(['ok'])
  replica.index = 100
  expect(await getOutcomesAfter(100, [db.execute(READ)])).toEqual(['ok'])
  replica.index = 99
  const calls = [db.execute(READ)]
  await vi.advanceTimersByTimeAsync(1_900)
  replica.index = 100
  // the earlier response does not release this read
  expect(await getOutcomesAfter(500, calls)).toEqual(['not yet'])
  expect(replica.probes).toBe(2)
  expect(db.replicationIndex).toBe('100')
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
  const replica = new Replica()
  replica.responseMs = 1_000
  const db = replica.client({ minReplicationIndex: 100 })
  expect(await getOutcomesAfter(2_700, [db.execute(READ, [], { timeoutMs: 2_600 })])).toEqual([
    expect.stringMatching(/^TransportError: no response/),
  ])
})

test('a read that is retried while the client is being closed with drainMs finishes', async () => {
  const replica = new Replica()
  const db = replica.client({ minReplicationIndex: 100 })
  const call = db.execute(READ)
  await vi.advanceTimersByTimeAsync(1_000)
  const closed = db.close({ drainMs: 10_000 })
  expect(await getOutcomesAfter(1_200, [call, closed])).toEqual(['ok', 'ok'])
  expect(await getOutcomesAfter(0, [db.execute(READ)])).toEqual(['TransportError: the client is closed'])
})

test('a cursor has its full idle timeout', async () => {
  const replica = new Replica()
  replica.responseMs = 2_500
  const db = replica.client({ minReplicationIndex: 100 })
  const read = async () => {
    for await (const _ of readRows(db, READ, [], { timeoutMs: 3_000 }));
  }
  expect(await getOutcomesAfter(5_000, [read()])).toEqual(['ok'])
  expect(replica.reads).toEqual(['100', null])
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
