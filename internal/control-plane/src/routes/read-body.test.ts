import { expect, test } from 'vitest'
import { limitBytes } from './read-body.ts'

test('a body that is too large is rejected with 413 before the rest of it is read; others are passed on unchanged', async () => {
  let sent = 0
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 10
      controller.enqueue(new Uint8Array(10))
    },
  })
  await expect(new Response(limitBytes(endless, 100)).arrayBuffer()).rejects.toMatchObject({
    status: 413,
    message: 'a request body is limited to 100 bytes',
  })
  expect(sent).toBeLessThan(200)
  const small = new Response('x'.repeat(100)).body as ReadableStream<Uint8Array>
  expect(await new Response(limitBytes(small, 100)).text()).toBe('x'.repeat(100))
})
