import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { toResponse } from './fetch-api.ts'

test.each([204, 304])('a response with the status %d has no body', async (status) => {
  for (const body of ['', Readable.from(['text'])]) {
    const response = toResponse({ status, headers: {}, body })
    expect([response.status, response.body]).toEqual([status, null])
    if (body instanceof Readable) expect(body.destroyed).toBe(true)
  }
})
