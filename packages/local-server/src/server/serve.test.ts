import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test, vi } from 'vitest'
import { serve } from './serve.ts'
import type { Service } from './service.ts'

test('a request whose connection was reset is not handled as one of this process, which has no address', async () => {
  // like a socket after a reset, one that was never connected has no address
  const incoming = new IncomingMessage(new Socket())
  const outgoing = new ServerResponse(incoming)
  const handle = vi.fn(async () => ({ status: 200, headers: {}, body: '' }))
  await serve({ handle } as unknown as Service, incoming, outgoing)
  expect([handle.mock.calls, outgoing.destroyed]).toEqual([[], true])
})
