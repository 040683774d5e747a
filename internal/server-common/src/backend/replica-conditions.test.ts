import { expect, test } from 'vitest'
import { ReplicaConditions } from './replica-conditions.ts'

test('a condition that is omitted or undefined stays as it is', () => {
  const conditions = new ReplicaConditions({ fra: 5 })
  conditions.change('fra', { isDown: true })
  conditions.change('fra', { lagMs: 7, isDown: undefined } as never)
  conditions.change('fra', { lagMs: undefined } as never)
  expect([conditions.isDown('fra'), conditions.lagMs('fra'), conditions.lagMs('ams')]).toEqual([true, 7, 0])
})
