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
  for (const value of [undefined, null, 'text', Object.create(null)])
    expect(describeFailure(value, '')).toBe(Object(value) === value ? '[object Object]' : String(value))
})
