import { expect, test } from 'vitest'
import { BatonSigner } from './baton.ts'

test('only the signer that created a baton accepts it, and no character of it can be changed', () => {
  const signer = new BatonSigner()
  const content = { stream: 7n, sequence: 2n ** 63n + 1n }
  const baton = signer.sign(content)
  expect(signer.verify(baton)).toEqual(content)
  expect(new BatonSigner().verify(baton)).toBeNull()
  for (let index = 0; index < baton.length; index++) {
    const replacement = baton[index] === 'A' ? 'B' : 'A'
    expect(signer.verify(baton.slice(0, index) + replacement + baton.slice(index + 1))).toBeNull()
  }
})
