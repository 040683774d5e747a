import { expect, test } from 'vitest'
import { checkHistory, type HistoryTransaction } from './history-checker.ts'

// Tests that the checker finds violations.
type PartialTransaction = Partial<HistoryTransaction> & { readonly id: number }
const createHistory = (...transactions: readonly PartialTransaction[]): HistoryTransaction[] =>
  transactions.map((transaction) => ({
    session: transaction.id,
    start: 0,
    end: 100,
    outcome: 'committed',
    appends: [],
    undone: [],
    reads: [],
    ...transaction,
  }))
const read = (key: number, values: number[], ownValues: number[] = []) => ({ key, values, ownValues })
/** A transaction that appends values to the lists with their numbers. */
const append = (...lists: number[][]): PartialTransaction => ({
  id: 1,
  appends: lists.flatMap((values, key) => values.map((value): [number, number] => [key, value])),
})
const check = (
  transactions: HistoryTransaction[],
  lists: readonly number[][],
  order: 'real-time' | 'session' = 'real-time',
) => checkHistory(transactions, new Map(lists.map((values, key) => [key, values])), order)

test('a serial history is valid, and its dependencies are counted', () => {
  const report = check(
    createHistory(
      { ...append([10]), end: 1 },
      { ...append([11], [12]), id: 2, start: 2, end: 3, reads: [read(0, [10]), read(0, [10, 11], [11])] },
      { id: 3, start: 4, end: 5, reads: [read(0, [10, 11]), read(1, [12])] },
      { ...append([13]), id: 4, start: 4, outcome: 'unknown' },
      { ...append([14]), id: 5, undone: [15], outcome: 'not_applied' },
    ),
    [[10, 11, 13], [12]],
  )
  const edges = { ww: 2, wr: 4, rw: 3, order: 3 }
  expect(report).toMatchObject({ transactions: 5, committed: 3, cycles: 0, violations: [], edges })
})

test.each<[string, PartialTransaction[], number[][], RegExp]>([
  ['a lost append', [append([10])], [[]], /lost/],
  ['a torn transaction', [{ ...append([10], [11]), outcome: 'unknown' }], [[10], []], /torn/],
  ['a value that should not exist', [{ ...append([10]), outcome: 'not_applied' }], [[10]], /not applied/],
  ['a value that exists twice', [append([10])], [[10, 10]], /twice/],
  ['a rolled-back savepoint that was kept', [{ ...append([10]), undone: [11] }], [[10, 11]], /rolled back/],
  [
    'a read of a value that was rolled back',
    [
      { id: 1, undone: [10], outcome: 'not_applied' },
      { id: 2, reads: [read(0, [10])] },
    ],
    [[]],
    /rolled back/,
  ],
  [
    'a read of part of a transaction',
    [append([10, 11]), { id: 2, reads: [read(0, [10])] }],
    [[10, 11]],
    /only part/,
  ],
  [
    'a read that is not a prefix of its list',
    [append([10, 11]), { id: 2, reads: [read(0, [11])] }],
    [[10, 11]],
    /became/,
  ],
  [
    'a read that misses an append of its own transaction',
    [{ ...append([10]), reads: [read(0, [], [10])] }],
    [[10]],
    /that it appended/,
  ],
  [
    'a write skew: each reads before the other writes',
    [
      { ...append([10]), reads: [read(1, [])] },
      { ...append([], [11]), id: 2, reads: [read(0, [])] },
    ],
    [[10], [11]],
    /cycle/,
  ],
  [
    'writes in a different order in each list',
    [append([10], [11]), { ...append([12], [13]), id: 2 }],
    [
      [10, 12],
      [13, 11],
    ],
    /cycle/,
  ],
  [
    'a read of an old state, after a newer one was acknowledged',
    [
      { ...append([10]), end: 1 },
      { id: 2, start: 2, reads: [read(0, [])] },
    ],
    [[10]],
    /cycle/,
  ],
])('%s is detected', (_, transactions, lists, violation) => {
  const [first] = check(createHistory(...transactions), lists).violations
  expect(first).toMatch(violation)
})

test('a session may read old values of another session, but not of itself', () => {
  const transactions = createHistory({ ...append([10]), end: 1 }, { id: 2, start: 2, reads: [read(0, [])] })
  expect(check(transactions, [[10]], 'session').cycles).toBe(0)
  const sameSession = transactions.map((transaction) => ({ ...transaction, session: 7 }))
  expect(check(sameSession, [[10]], 'session').cycles).toBe(1)
})
