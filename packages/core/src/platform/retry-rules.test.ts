import { expect, test } from 'vitest'
import { wasNeverConnected } from './retry-rules.ts'

const failure = (details: object): Error =>
  new TypeError('fetch failed', { cause: Object.assign(new Error('x'), details) })

test.each([
  ['refused', { code: 'ECONNREFUSED', syscall: 'connect' }, true],
  ['no such name', { code: 'ENOTFOUND', syscall: 'getaddrinfo' }, true],
  ['unreachable at first', { code: 'ENETUNREACH', syscall: 'connect' }, true],
  ['unreachable in the middle', { code: 'EHOSTUNREACH', syscall: 'read' }, false],
  ['reset', { code: 'ECONNRESET', syscall: 'read' }, false],
])('%s', (_, details, expected) => {
  expect(wasNeverConnected(failure(details))).toBe(expected)
})
