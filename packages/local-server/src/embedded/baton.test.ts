import { expect, test } from 'vitest'
import { BatonSigner } from './baton.ts'

test('only the signer that created a baton accepts it, and no digit can be changed', () => {
  const signer = new BatonSigner()
  const content = { stream: 7n, sequence: 2n ** 63n + 1n }
  const baton = signer.sign(content)
  expect(signer.verify(baton)).toEqual(content)
  expect(new BatonSigner().verify(baton)).toBeNull()
  for (let at = 0; at < baton.length; at++) {
    const replacement = baton[at] === 'A' ? 'B' : 'A'
    expect(signer.verify(baton.slice(0, at) + replacement + baton.slice(at + 1))).toBeNull()
  }
})
