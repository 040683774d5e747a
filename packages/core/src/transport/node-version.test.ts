import { expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { unsupportedNode } from './node-version.ts'

test.each(['22.19.0', '22.22.1', '23.0.0', '24.4.0', '100.0.0'])('node %s is supported', (version) => {
  expect(unsupportedNode(version)).toBeNull()
})

test.each(['16.20.2', '18.20.8', '20.19.0', '22.9.0', '22.18.0'])(
  'node %s is rejected with a one-line message',
  (version) => {
    expect(unsupportedNode(version)).toBe(
      `@batonsql/core requires node 22.19 or newer, but this is node ${version}`,
    )
  },
)

test('package.json declares the same versions', () => {
  expect(manifest.engines.node).toBe('>=22.19')
})
