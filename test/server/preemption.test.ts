/*
 * Cursors that are read slowly while another client waits for the write lock. Taking over the lock takes five seconds, the
 * server's time limit, so these tests run concurrently.
 */
import { describe, expect, test } from 'vitest'
import { expectNoStall } from '../support/no-stall.ts'
import { startWith } from './start-with.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const MANY_ROWS = 'SELECT value, hex(randomblob(50)) FROM generate_series(1, 100000)'

/** Starts a cursor and reads only its beginning; the returned function reads the rest and returns the last lines. */
async function startSlowCursor(
  url: string,
  statements: readonly string[],
): Promise<() => Promise<unknown[]>> {
  const steps = statements.map((sql) => ({ stmt: { sql } }))
  const response = await fetch(`${url}/v3/cursor`, {
    method: 'POST',
    body: JSON.stringify({ batch: { steps } }),
  })
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  let text = Buffer.from((await reader.read()).value ?? []).toString()
  return async () => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      text = (text + Buffer.from(value).toString()).slice(-5_000)
    }
    const lines = text.trimEnd().split('\n').slice(1)
    return lines
      .map((line) => JSON.parse(line))
      .filter(({ type }) => !['row', 'replication_index'].includes(type))
  }
}

const timeoutOfStep = (step: number): object =>
  expect.objectContaining({
    type: 'step_error',
    step,
    error: { code: 'TRANSACTION_TIMEOUT', message: 'Transaction timed out' },
  })

describe.concurrent('the write lock of a cursor that waits for its reader', () => {
  test('is taken over: later statements of the transaction do not run outside it', async () => {
    await using server = await startWith('CREATE TABLE t (a)')
    const readRest = await startSlowCursor(server.url, [
      'BEGIN IMMEDIATE',
      "INSERT INTO t VALUES ('first')",
      MANY_ROWS,
      "INSERT INTO t VALUES ('second')",
      'COMMIT',
    ])
    await query(server.url, "INSERT INTO t VALUES ('other')")
    expect(await readRest()).toEqual([timeoutOfStep(2), timeoutOfStep(3), timeoutOfStep(4)])
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([['other']])
  })

  test("is taken over: the cursor's own change is rolled back, and the other client does not receive SQLITE_BUSY", async () => {
    await using server = await startWith('CREATE TABLE t (a, b)')
    const readRest = await startSlowCursor(server.url, [`INSERT INTO t ${MANY_ROWS} RETURNING a, b`])
    const write = await pipeline(server.url, [execute("INSERT INTO t VALUES ('other', 1)"), close])
    expect(codes(write)).toEqual(['ok', 'ok'])
    expect(await readRest()).toEqual([timeoutOfStep(0)])
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([['other']])
  })

  test('is kept if no other client waits for it: the reader receives everything, and the transaction is committed', async () => {
    await using server = await startWith('CREATE TABLE t (a)')
    const readRest = await startSlowCursor(server.url, [
      'BEGIN IMMEDIATE',
      MANY_ROWS,
      'INSERT INTO t VALUES (1)',
      'COMMIT',
    ])
    expect(await readRest()).not.toContainEqual(expect.objectContaining({ type: 'step_error' }))
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([['1']])
  })
})

test('a transaction whose snapshot is outdated does not prevent others from writing', async () => {
  await using server = await startWith('CREATE TABLE t (a)')
  const transaction = await pipeline(server.url, [execute('BEGIN'), execute('SELECT * FROM t')])
  await query(server.url, 'INSERT INTO t VALUES (1)')
  const failedWrite = await pipeline(server.url, [execute('INSERT INTO t VALUES (2)')], {
    baton: transaction.baton,
  })
  expect(codes(failedWrite)).toEqual(['SQLITE_BUSY'])
  await expectNoStall(() => query(server.url, 'INSERT INTO t VALUES (3)'))
  const read = await pipeline(server.url, [execute('SELECT * FROM t'), execute('ROLLBACK'), close], {
    baton: failedWrite.baton,
  })
  expect(codes(read)).toEqual(['ok', 'ok', 'ok'])
  expect(read.results[0]?.response?.result?.rows).toEqual([])
})

test('a transaction that has written keeps the lock when one of its statements fails', async () => {
  await using server = await startWith('CREATE TABLE t (a UNIQUE)')
  const transaction = await pipeline(server.url, [
    execute('BEGIN'),
    execute('INSERT INTO t VALUES (1)'),
    execute('INSERT INTO t VALUES (1)'),
  ])
  expect(codes(transaction)).toEqual(['ok', 'ok', 'SQLITE_CONSTRAINT'])
  const write = query(server.url, 'INSERT INTO t VALUES (2)')
  expect(codes(await pipeline(server.url, [execute('COMMIT'), close], { baton: transaction.baton }))).toEqual(
    ['ok', 'ok'],
  )
  await write
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['1'], ['2']])
})
