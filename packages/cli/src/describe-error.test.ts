import { TransportError } from '@batonsql/core'
import { PlatformError } from '@batonsql/platform'
import { expect, test } from 'vitest'
import { describeError } from './describe-error.ts'

const lost = (method: 'GET' | 'POST'): PlatformError =>
  new PlatformError({ code: 'NETWORK', outcome: 'unknown', method, path: '/v1/x', message: 'no response' })

test.each([
  [new TransportError('NETWORK', 'no response', 'unknown'), true],
  [new TransportError('NETWORK', 'no response', 'not_applied'), false],
  [lost('POST'), true],
  [lost('GET'), false],
  [new Error('no response'), false],
])('says of %o that its outcome is unknown: %s', (error, isUnknown) => {
  const note = '\nIt is unknown whether the changes were applied.'
  expect(describeError(error)).toBe(`baton: no response${isUnknown ? note : ''}`)
})
