import { expect, test } from 'vitest'
import { BatonSealer } from './baton.ts'

test('a baton opens to what was sealed, and with the sealer that made it alone', () => {
  const sealer = new BatonSealer()
  const content = { stream: 7n, sequence: 2n ** 63n + 1n }
  const baton = sealer.seal(content)
  expect(sealer.open(baton)).toEqual(content)
  expect(new BatonSealer().open(baton)).toBeNull()
  for (let at = 0; at < baton.length; at++) {
    const other = baton[at] === 'A' ? 'B' : 'A'
    expect(sealer.open(baton.slice(0, at) + other + baton.slice(at + 1))).toBeNull()
  }
})
