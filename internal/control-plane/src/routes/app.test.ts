import { expect, test, vi } from 'vitest'
import { createPlatformApp } from './app.ts'

test('an internal error is logged, and its message is not sent', async () => {
  const error = new Error('cannot read /var/lib/baton/keys')
  const log = vi.spyOn(console, 'error').mockReturnValue()
  const plane = {
    apiTokens: {
      authenticate: () => {
        throw error
      },
    },
  }
  const handle = createPlatformApp({ plane } as unknown as Parameters<typeof createPlatformApp>[0])
  const response = await handle(new Request('http://127.0.0.1/v1/organizations'))
  expect([response.status, await response.json()]).toEqual([500, { error: 'internal error' }])
  expect(log.mock.calls).toEqual([[error]])
})
