import { expect, test, vi } from 'vitest'
import { fetchDatabaseNames, type Result, runStatement } from './page/database-client.ts'

const START = '{"baton":null}\n{"type":"step_begin","step":0,"cols":[{"name":"x"}]}\n'
const END = '{"type":"step_end","affected_row_count":1}\n'
const row = (text: string): string => `{"type":"row","row":[{"type":"text","value":"${text}"}]}\n`

/** Responds to the next requests with a body in parts. */
function respondWith(text: string, { status = 200, partBytes = 16_384 } = {}): void {
  const bytes = new TextEncoder().encode(text)
  const body = new ReadableStream({
    start(controller) {
      for (let i = 0; i < bytes.length; i += partBytes) controller.enqueue(bytes.subarray(i, i + partBytes))
      controller.close()
    },
  })
  vi.stubGlobal('fetch', async () => new Response(body, { status }))
}

function write(maxRows = 10): Promise<Result> {
  return runStatement('app', 'delete from t returning x', {
    mayWrite: true,
    maxRows,
    signal: new AbortController().signal,
  })
}

test('reads rows, in parts of any size, and counts those that it does not keep', async () => {
  for (const partBytes of [1, 7, 16_384]) {
    respondWith(START + row('a') + row('ü') + END, { partBytes })
    expect(await write(1)).toEqual({
      columns: ['x'],
      rows: [[{ type: 'text', value: 'a' }]],
      rowsAffected: 1,
      isTruncated: true,
    })
  }
})

test('searches each part of a long row only once', async () => {
  const text = START + row('a'.repeat(2_000_000)) + END
  respondWith(text)
  const { split } = String.prototype
  let searched = 0
  const spy = vi.spyOn(String.prototype, 'split').mockImplementation(function (this: string, ...args) {
    searched += this.length
    return split.apply(this, args)
  })
  const { rows } = await write().finally(() => spy.mockRestore())
  expect(rows).toHaveLength(1)
  expect(searched).toBe(text.length)
})

test.each(['', START, START + row('a'), '{"baton":null}\n'])(
  'a response that ends early: %j',
  async (text) => {
    respondWith(text)
    await expect(write()).rejects.toThrow('The response was truncated. The database may have been changed.')
  },
)

test('a rejected request for the names of databases', async () => {
  respondWith('{"error":"no"}', { status: 500 })
  await expect(fetchDatabaseNames()).rejects.toThrow('HTTP 500: {"error":"no"}')
})

test('a statement with a syntax error, which servers reject with HTTP 500', async () => {
  const message = 'SQL string could not be parsed: near "selec", "`": syntax error'
  respondWith(JSON.stringify({ error: `Internal Error: \`${message}\`` }), { status: 500 })
  await expect(write()).rejects.toThrow(message)
})
