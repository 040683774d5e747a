import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { toErrorResponse } from './internal-errors.ts'

test('an error is described with its causes, even if they are cyclic', () => {
  const first = new Error('first')
  const second = new TypeError('second', { cause: first })
  first.cause = second
  const reports: string[] = []
  const request = { controller: new AbortController(), body: Readable.from([]) }
  const { status, body } = toErrorResponse(first, request, (_, details) => void reports.push(details))
  expect([status, body]).toEqual([500, expect.not.stringContaining('first')])
  expect(reports).toEqual([expect.stringMatching(/^Error: first\n[^]*\ncaused by TypeError: second\n/)])
  toErrorResponse(new Error('outer', { cause: 'text' }), request, (_, details) => void reports.push(details))
  expect(reports[1]).toMatch(/^Error: outer\n[^]*\ncaused by text$/)
})
