import { expect, test } from 'vitest'
import { formatFields } from './command-output.ts'

test('fields without a value are none, also those that a server does not send', () => {
  const fields = { sizeLimit: '', group: null, allowAttach: undefined, blockReads: false }
  expect(formatFields(fields)).toBe(
    ['sizeLimit    none', 'group        none', 'allowAttach  none', 'blockReads   false'].join('\n'),
  )
})
