import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { dump } from '../backup/dump.ts'
import { exportFile } from '../backup/export-file.ts'
import { DatabaseError } from '../base/errors.ts'
import type { ClientConfig } from '../config.ts'
import { describe as describeStatement } from '../endpoints/describe.ts'
import { jobs } from '../endpoints/jobs.ts'
import { coalesce } from '../request/coalescer.ts'
import { createClient } from './client.ts'
import { readRows } from './read-rows.ts'

// Whatever response a server or a proxy sends, a call returns a result or rejects with one of our errors.

const result = {
  cols: [
    { name: 'a', decltype: 'INTEGER' },
    { name: 'b', decltype: null },
  ],
  rows: [
    [
      { type: 'integer', value: '1' },
      { type: 'text', value: 'x' },
    ],
    [{ type: 'blob', base64: 'AAE' }, { type: 'null' }],
  ],
  affected_row_count: 0,
  last_insert_rowid: '3',
  replication_index: '7',
}
const executeResult = { type: 'ok', response: { type: 'execute', result } }
const steps = { step_results: [result, result, result, null], step_errors: [null, null, null, null] }
const batchResult = { type: 'ok', response: { type: 'batch', result: { ...steps, replication_index: '7' } } }
const noTable = { message: 'SQLite error: no such table: t', code: 'SQLITE_UNKNOWN' }
const errorResult = { type: 'error', error: noTable }
const closeResult = { type: 'ok', response: { type: 'close' } }
const responses = [executeResult, batchResult, errorResult].map((first) => ({
  baton: 'b',
  base_url: 'http://127.0.0.1:1/',
  results: [first, closeResult],
}))

const WRONG_TYPES = [{ type: 'ok' }, { type: 'error' }]
const WRONG_VALUES = [null, undefined, 0, 1, -1, 1e300, '', 'x', '7', true, [], {}, [null], ...WRONG_TYPES]

/** Returns a copy of a value with some of its parts replaced. */
function replaceParts(value: unknown, replacements: readonly { at: number; by: unknown }[]): unknown {
  const copy = structuredClone(value)
  for (const { at, by } of replacements) {
    const nodes: { parent: Record<string, unknown>; key: string }[] = []
    const visit = (node: unknown): void => {
      if (typeof node !== 'object' || node === null) return
      for (const key of Object.keys(node)) {
        nodes.push({ parent: node as Record<string, unknown>, key })
        visit((node as Record<string, unknown>)[key])
      }
    }
    visit(copy)
    const node = nodes[at % nodes.length]
    if (node) node.parent[node.key] = structuredClone(by)
  }
  return copy
}

const replacements = (lastPart: number) =>
  fc.array(fc.record({ at: fc.nat(lastPart), by: fc.constantFrom(...WRONG_VALUES) }), { maxLength: 3 })
const malformedBody = fc
  .tuple(fc.constantFrom(...responses), replacements(60))
  .map(([response, changes]) => JSON.stringify(replaceParts(response, changes)))

/** Creates a client that gets one response to every request. */
const clientWith = (body: string, config: Partial<ClientConfig> = {}) =>
  createClient({ url: 'http://127.0.0.1:1', fetch: async () => new Response(body), maxRetries: 0, ...config })

/** @param isRead whether the call can change nothing, regardless of the response */
async function expectToSettle(call: () => Promise<unknown>, isRead = true): Promise<void> {
  try {
    await call()
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    if (isRead) expect(error.outcome, String(error)).toBe('not_applied')
  }
}

async function consume(parts: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of parts);
}

describe.each([
  ['execute', (db) => db.execute('select 1')],
  ['coalesced statements', (db) => Promise.all([db.execute('select 1'), db.execute('select 2')])],
  ['batch', (db) => db.batch(['select 1', 'select 2'])],
  ['describe', (db) => describeStatement(db, 'select 1')],
  ['jobs', (db) => jobs.list(db)],
  ['dump', (db) => consume(dump(db))],
  ['exportFile', (db) => consume(exportFile(db))],
  [
    'transaction',
    (db) =>
      db.transaction(async (tx) => {
        await tx.execute('select 1').catch(() => {})
        await tx.batch(['select 2', 'select 3'])
      }),
  ],
  [
    'statements at once',
    (db) => db.transaction((tx) => Promise.all([tx.execute('select 1'), tx.execute('select 2')])),
  ],
] satisfies [string, (db: ReturnType<typeof createClient>) => Promise<unknown>][])('%s', (_, call) => {
  test('settles with a result or one of our errors', async () => {
    await fc.assert(
      fc.asyncProperty(malformedBody, async (body) => {
        await using db = clientWith(body, { coalesce })
        // a transaction has the outcome of its COMMIT
        await expectToSettle(() => call(db), !String(call).includes('transaction'))
      }),
      { numRuns: 400 },
    )
  })
})

test('reading the rows of a cursor also settles', async () => {
  const lines = [
    { baton: 'b', base_url: null },
    { type: 'step_begin', step: 0, cols: result.cols },
    { type: 'row', row: result.rows[0] },
    { type: 'step_end', affected_row_count: 0, last_insert_rowid: null },
    { type: 'replication_index', replication_index: '7' },
  ]
  await fc.assert(
    fc.asyncProperty(replacements(40), async (changes) => {
      const body = (replaceParts(lines, changes) as unknown[]).map((line) => JSON.stringify(line)).join('\n')
      await using db = clientWith(body)
      await expectToSettle(() => consume(readRows(db, 'select 1')))
    }),
    { numRuns: 400 },
  )
})

test('a write with a response of status 2xx but without content has an unknown outcome', async () => {
  await using db = createClient({
    url: 'http://127.0.0.1:1',
    fetch: async () => new Response(null, { status: 204 }),
  })
  const insert = 'insert into t values (1)'
  for (const call of [db.execute(insert), db.batch([insert]), consume(readRows(db, `${insert} returning a`))])
    await expect(call).rejects.toMatchObject({ code: 'PROTOCOL', outcome: 'unknown' })
})

test('the response of another request is not accepted', async () => {
  for (const body of responses.slice(0, 2)) {
    await using db = clientWith(JSON.stringify(body))
    const mismatchedCall = body === responses[0] ? db.batch(['select 1', 'select 2']) : db.execute('select 1')
    await expect(mismatchedCall).rejects.toMatchObject({ code: 'PROTOCOL' })
  }
})
