import { expect, test } from 'vitest'
import { fetchFailure } from '../test-support/scripted-platform.ts'
import { wasNeverConnected } from './retry-rules.ts'

test.each([
  ['refused', 'ECONNREFUSED', 'connect', true],
  ['no such name', 'ENOTFOUND', 'getaddrinfo', true],
  ['unreachable at first', 'ENETUNREACH', 'connect', true],
  ['unreachable in the middle', 'EHOSTUNREACH', 'read', false],
  ['reset', 'ECONNRESET', 'read', false],
])('%s', (_, code, syscall, expected) => {
  expect(wasNeverConnected(fetchFailure(code, syscall))).toBe(expected)
})

test('an error that is its own cause', () => {
  const error = new Error('round')
  expect(wasNeverConnected(Object.assign(error, { cause: error }))).toBe(false)
})
