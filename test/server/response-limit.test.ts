// Which data counts toward the limit of 10,000,000 bytes per response, to the byte, on both back ends.
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasSqld } from '../support/has-sqld.ts'
import { close, codes, execute, pipeline, query, type WireRequest } from './wire.ts'

/** Two blobs of 4,900,000 bytes in columns with one-letter names. */
const TWO_LARGE_BLOBS = 'SELECT zeroblob(4900000) AS a, zeroblob(4900000) AS b'
/** The bytes that remain for the value of a third column with a one-letter name; a column counts as 29 bytes plus its name. */
const REMAINING_BYTES = 10_000_000 - 9_800_000 - 3 * 30

const single = (sql: string): WireRequest => execute(sql)
const batch = (...sqls: string[]): WireRequest => ({
  type: 'batch',
  batch: { steps: sqls.map((sql) => ({ stmt: { sql } })) },
})
/** Returns a query for the given number of rows with one column. */
const selectRows = (count: number, value: string): string =>
  `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ${count}) SELECT ${value} AS c FROM n`
/** Returns a batch with a statement between two large steps. @param countedBytes the bytes that the statement counts as */
const createBatchAround = (sql: string, countedBytes: number) => (excess: number) =>
  batch(
    'SELECT zeroblob(4900000) AS a',
    sql,
    `SELECT zeroblob(4900000) AS b, zeroblob(${REMAINING_BYTES - countedBytes + excess}) AS c`,
  )
/** Returns how many values of the given size fit in a column with a one-letter name. */
const countFitting = (bytes: number): number => Math.floor((10_000_000 - 30) / bytes)

/** Each creates a request whose response has exactly the maximum size with an excess of 0, and is too large with 1. */
const REQUESTS_AT_LIMIT: Readonly<Record<string, (excess: number) => WireRequest>> = {
  'a blob: its bytes': (excess) => single(`${TWO_LARGE_BLOBS}, zeroblob(${REMAINING_BYTES + excess}) AS c`),
  'the name of a column': (excess) =>
    single(`${TWO_LARGE_BLOBS}, zeroblob(${REMAINING_BYTES - 10 + excess}) AS ccccccccccc`),
  'the declared type of a column': (excess) =>
    single(`${TWO_LARGE_BLOBS}, d, zeroblob(${REMAINING_BYTES - 33 - 3 + excess}) AS c FROM declared`),
  'text: 26 bytes plus its length': (excess) =>
    single(`${TWO_LARGE_BLOBS}, printf('%.*c', ${REMAINING_BYTES - 26 + excess}, 'x') AS c`),
  'line breaks as one byte': (excess) =>
    single(
      `${TWO_LARGE_BLOBS}, replace(printf('%.*c', ${REMAINING_BYTES - 26 + excess}, 'x'), 'x', char(10)) AS c`,
    ),
  'é as two bytes': (excess) =>
    single(
      `${TWO_LARGE_BLOBS}, replace(printf('%.*c', ${(REMAINING_BYTES - 26) / 2 + excess}, 'x'), 'x', 'é') AS c`,
    ),
  'integers: 29 bytes plus their digits': (excess) => single(selectRows(countFitting(30) + excess, '5')),
  'negative integers': (excess) => single(selectRows(countFitting(32) + excess, '-10')),
  nulls: (excess) => single(selectRows(countFitting(15) + excess, 'null')),
  'floats: 26 bytes plus their digits': (excess) => single(selectRows(countFitting(29) + excess, '1.5')),
  'whole floats without a fraction': (excess) => single(selectRows(countFitting(27) + excess, '1.0')),
  'large floats with all their digits': (excess) => single(selectRows(countFitting(47) + excess, '1e20')),
  'small floats with all their zeros': (excess) => single(selectRows(countFitting(36) + excess, '1.5e-7')),
  'negative floats': (excess) => single(selectRows(countFitting(34) + excess, '-0.00125')),
  infinities: (excess) => single(selectRows(countFitting(29) + excess, '9e999')),
  'steps of a batch together': createBatchAround("SELECT '' AS a WHERE 0", 30),
  'a step without columns': createBatchAround('DROP TABLE IF EXISTS missing', 0),
  'a syntax error in a step': createBatchAround(
    'SELECT missing',
    'no such column: missing in SELECT missing at offset 7'.length,
  ),
  'an error of a step': createBatchAround('SELECT 1 FROM missing', 'no such table: missing'.length),
  'an error after rows': createBatchAround(
    'SELECT abs(column1) FROM (VALUES (1), (-9223372036854775808))',
    'integer overflow'.length,
  ),
  'missing arguments of a step': createBatchAround('SELECT ?', 82),
}

interface RunningServer extends AsyncDisposable {
  readonly url: string
}

const SERVERS: Readonly<Record<string, () => Promise<RunningServer>>> = {
  embedded: () => startLocalServer(),
  ...(hasSqld && { sqld: () => startLocalServer({ backend: 'sqld' }) }),
}

describe.each(Object.keys(SERVERS))('the response limit on the back end %s', (name) => {
  let server: RunningServer
  beforeAll(async () => {
    server = await (SERVERS[name] as () => Promise<RunningServer>)()
    await query(server.url, 'CREATE TABLE declared (d VARCHAR)')
    await query(server.url, 'INSERT INTO declared VALUES (zeroblob(3))')
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test.each(Object.entries(REQUESTS_AT_LIMIT))('%s', async (_, request) => {
    const accepted = await pipeline(server.url, [request(0), close])
    expect(codes(accepted)).toEqual(['ok', 'ok'])
    const rejected = await pipeline(server.url, [request(1), close])
    expect(rejected.results[0]?.error).toEqual({
      code: 'RESPONSE_TOO_LARGE',
      message: 'Response is too large',
    })
  })

  test('applies to each request of a pipeline separately, and not to cursors', async () => {
    const request = REQUESTS_AT_LIMIT['a blob: its bytes'] as (excess: number) => WireRequest
    expect(codes(await pipeline(server.url, [request(0), request(0), close]))).toEqual(['ok', 'ok', 'ok'])
    const response = await fetch(`${server.url}/v3/cursor`, {
      method: 'POST',
      body: JSON.stringify({ batch: { steps: [{ stmt: (request(1) as { stmt: unknown }).stmt }] } }),
    })
    expect((await response.text()).trimEnd().split('\n').at(-1)).toContain('"replication_index"')
  })

  test('a write whose rows exceed the limit is still applied', async () => {
    await query(server.url, 'CREATE TABLE changed (a)')
    const change = `INSERT INTO changed SELECT hex(zeroblob(2400000)) FROM generate_series(1, 3) RETURNING a`
    expect(codes(await pipeline(server.url, [execute(change), close]))).toEqual(['RESPONSE_TOO_LARGE', 'ok'])
    expect(await query(server.url, 'SELECT count(*) FROM changed')).toEqual([['3']])
  })
})
