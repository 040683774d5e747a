import type { DatabaseId } from '@batonsql/server-common/backend'
import { expect, test } from 'vitest'
import { InternalRequests } from './internal-requests.ts'
import type { Upstream } from './upstream.ts'

const ID = '00000000-0000-4000-8000-000000000001' as DatabaseId

/** Creates internal requests to a server that always sends the same response. */
function createRequests(status: number, body: string): InternalRequests {
  const sendOnce = async (): Promise<object> => ({ status, headers: {}, body: Buffer.from(body) })
  return new InternalRequests({ sendOnce } as unknown as Upstream)
}

test('a query that fails rejects, although the status is 200', async () => {
  const failure = JSON.stringify({
    baton: null,
    results: [
      { type: 'error', error: { message: 'database or disk is full', code: 'SQLITE_FULL' } },
      { type: 'ok', response: { type: 'close' } },
    ],
  })
  const requests = createRequests(200, failure)
  await expect(requests.query(ID, 'CREATE TABLE t (a)')).rejects.toThrow(/^database or disk is full$/)
  expect(await requests.fetchResult(ID, 'CREATE TABLE t (a)')).toBe(failure)
})

test('a query returns the text of a response without an error, and rejects another status', async () => {
  const success = JSON.stringify({
    baton: null,
    results: [
      { type: 'ok', response: { type: 'execute', result: { rows: [[{ type: 'text', value: 'error' }]] } } },
    ],
  })
  expect(await createRequests(200, success).query(ID, 'SELECT 1')).toBe(success)
  await expect(createRequests(500, 'no').query(ID, 'SELECT 1')).rejects.toThrow('no')
})
