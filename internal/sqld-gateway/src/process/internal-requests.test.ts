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

test('returns the text of a response, and rejects another status', async () => {
  expect(await createRequests(200, 'yes').fetchResult(ID, 'SELECT 1')).toBe('yes')
  await expect(createRequests(500, 'no').fetchResult(ID, 'SELECT 1')).rejects.toThrow('no')
})
