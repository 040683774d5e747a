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
/** A transaction that appends one value to each of two lists, or two values to one. */
const twoLists = (first: number, second: number): PartialTransaction => ({
  id: 1,
  appends: [
    [0, first],
    [1, second],
  ],
})
const oneList = (first: number, second: number): PartialTransaction => ({
  id: 1,
  appends: [
    [0, first],
    [0, second],
  ],
})
const check = (
  transactions: HistoryTransaction[],
  lists: Record<number, number[]>,
  order: 'real-time' | 'session' = 'real-time',
) =>
  checkHistory(
    transactions,
    new Map(Object.entries(lists).map(([key, values]) => [Number(key), values])),
    order,
  )

test('a serial history is valid, and its dependencies are counted', () => {
  const report = check(
    createHistory(
      { id: 1, appends: [[0, 10]], end: 1 },
      {
        id: 2,
        start: 2,
        end: 3,
        appends: [
          [0, 11],
          [1, 12],
        ],
        reads: [read(0, [10]), read(0, [10, 11], [11])],
      },
      { id: 3, start: 4, end: 5, reads: [read(0, [10, 11]), read(1, [12])] },
      { id: 4, start: 4, appends: [[0, 13]], outcome: 'unknown' },
      { id: 5, appends: [[0, 14]], undone: [15], outcome: 'not_applied' },
    ),
    { 0: [10, 11, 13], 1: [12] },
  )
  expect(report).toMatchObject({
    transactions: 5,
    committed: 3,
    cycles: 0,
    violations: [],
    edges: { ww: 2, wr: 4, rw: 3, order: 3 },
  })
})

test.each<[string, HistoryTransaction[], Record<number, number[]>, RegExp]>([
  ['a lost append', createHistory({ id: 1, appends: [[0, 10]] }), { 0: [] }, /lost/],
  [
    'a torn transaction',
    createHistory({ ...twoLists(10, 11), outcome: 'unknown' }),
    { 0: [10], 1: [] },
    /torn/,
  ],
  [
    'a value that should not exist',
    createHistory({ id: 1, appends: [[0, 10]], outcome: 'not_applied' }),
    { 0: [10] },
    /not applied/,
  ],
  ['a value that exists twice', createHistory({ id: 1, appends: [[0, 10]] }), { 0: [10, 10] }, /twice/],
  [
    'a rolled-back savepoint that was kept',
    createHistory({ id: 1, appends: [[0, 10]], undone: [11] }),
    { 0: [10, 11] },
    /rolled back/,
  ],
  [
    'a read of a value that was rolled back',
    createHistory({ id: 1, undone: [10], outcome: 'not_applied' }, { id: 2, reads: [read(0, [10])] }),
    { 0: [] },
    /rolled back/,
  ],
  [
    'a read of part of a transaction',
    createHistory(oneList(10, 11), { id: 2, reads: [read(0, [10])] }),
    { 0: [10, 11] },
    /only part/,
  ],
  [
    'a read that is not a prefix of its list',
    createHistory(oneList(10, 11), { id: 2, reads: [read(0, [11])] }),
    { 0: [10, 11] },
    /became/,
  ],
  [
    'a read that misses an append of its own transaction',
    createHistory({ id: 1, appends: [[0, 10]], reads: [read(0, [], [10])] }),
    { 0: [10] },
    /that it appended/,
  ],
  [
    'a write skew: each reads before the other writes',
    createHistory(
      { id: 1, appends: [[0, 10]], reads: [read(1, [])] },
      { id: 2, appends: [[1, 11]], reads: [read(0, [])] },
    ),
    { 0: [10], 1: [11] },
    /cycle/,
  ],
  [
    'writes in a different order in each list',
    createHistory(twoLists(10, 11), { ...twoLists(12, 13), id: 2 }),
    { 0: [10, 12], 1: [13, 11] },
    /cycle/,
  ],
  [
    'a read of an old state, after a newer one was acknowledged',
    createHistory({ id: 1, appends: [[0, 10]], end: 1 }, { id: 2, start: 2, reads: [read(0, [])] }),
    { 0: [10] },
    /cycle/,
  ],
])('%s is detected', (_, transactions, lists, violation) => {
  expect(check(transactions, lists).violations).toEqual(
    [expect.stringMatching(violation)].concat(check(transactions, lists).violations.slice(1)),
  )
})

test('a session may read old values of another session, but not of itself', () => {
  const transactions = createHistory(
    { id: 1, appends: [[0, 10]], end: 1 },
    { id: 2, start: 2, reads: [read(0, [])] },
  )
  expect(check(transactions, { 0: [10] }, 'session').cycles).toBe(0)
  const sameSession = transactions.map((transaction) => ({ ...transaction, session: 7 }))
  expect(check(sameSession, { 0: [10] }, 'session').cycles).toBe(1)
})
