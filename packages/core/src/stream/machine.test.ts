import { expect, test } from 'vitest'
import { SEED, seeded } from '../../../../test/support/random.ts'
import { playHistories, searchStates } from '../../test-support/search-streams.ts'
import type { Fault } from '../../test-support/stream-world.ts'
import type { Effect } from './stream-events.ts'

// MACHINE_HISTORIES and MACHINE_STATES lengthen these tests, and TEST_SEED repeats them; `npm test -- machine` is the long version.
const HISTORIES = Number(process.env['MACHINE_HISTORIES'] ?? 20_000)
const STATES = Number(process.env['MACHINE_STATES'] ?? 20_000)
const LENGTHS = [12, 25, 50]

test.each(LENGTHS)(
  `random histories of %i moves break no rule (TEST_SEED=${SEED})`,
  (length) => {
    expect(playHistories(HISTORIES / LENGTHS.length, length, seeded(SEED))).toBe(null)
  },
  10_000_000,
)

test('no order of moves breaks a rule', () => {
  const { states, depth, finding } = searchStates(STATES)
  console.log(`${states} states, up to ${depth} moves`)
  expect(finding).toBe(null)
}, 10_000_000)

test.each<[string, RegExp, Fault]>([
  ['keeps a permit', /permit/, (effects) => effects.filter(({ type }) => type !== 'releasePermit')],
  ['forgets to close', /after close/, (effects) => effects.filter(({ type }) => type !== 'sendClose')],
  [
    'loses a call',
    /never settled/,
    (effects) => effects.filter((effect) => effect.type !== 'reject' || effect.rejection.type !== 'ended'),
  ],
  [
    'settles a call twice',
    /twice/,
    (effects) =>
      effects.flatMap((effect): Effect[] => (effect.type === 'reject' ? [effect, effect] : [effect])),
  ],
  [
    'denies a COMMIT that may have taken effect',
    /was told/,
    (effects) =>
      effects.map((effect) =>
        effect.type === 'reject' && effect.rejection.type === 'error'
          ? { ...effect, rejection: { type: 'ended' } }
          : effect,
      ),
  ],
  [
    'sends twice',
    /in flight/,
    (effects) =>
      effects.flatMap((effect): Effect[] => (effect.type === 'send' ? [effect, effect] : [effect])),
  ],
])('a machine that %s is found out', (_, violation, fault) => {
  expect(playHistories(5_000, 25, seeded(1), fault)?.violation).toMatch(violation)
})
