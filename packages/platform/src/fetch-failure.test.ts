import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { fetchFailure } from '../test-support/scripted-platform.ts'
import { describeFailure, wasNeverConnected } from './fetch-failure.ts'

test.each([
  ['refused', 'ECONNREFUSED', 'connect', true],
  ['no such name', 'ENOTFOUND', 'getaddrinfo', true],
  ['unreachable when connecting', 'ENETUNREACH', 'connect', true],
  ['unreachable while reading', 'EHOSTUNREACH', 'read', false],
  ['reset', 'ECONNRESET', 'read', false],
])('a connection failure: %s', (_, code, syscall, expected) => {
  expect(wasNeverConnected(fetchFailure(code, syscall))).toBe(expected)
})

test('handles an error that is its own cause', () => {
  const error = new Error('circular')
  expect(wasNeverConnected(Object.assign(error, { cause: error }))).toBe(false)
})

test('describes any value that a custom fetch throws', () => {
  expect(
    [
      undefined,
      null,
      'text',
      Object.create(null),
      { toString: () => 'no way' },
      runInNewContext("new TypeError('no way')"),
    ].map((value) => describeFailure(value, '')),
  ).toEqual(['undefined', 'null', 'text', '[object Object]', 'no way', 'no way'])
})
