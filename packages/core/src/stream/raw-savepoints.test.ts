import { expect, test } from 'vitest'
import { RawSavepoints } from './raw-savepoints.ts'

/** What each statement means, with the state of the stream that follows from it. */
function follow(statements: readonly string[]): (string | null)[] {
  const savepoints = new RawSavepoints()
  let inTransaction = false
  return statements.map((sql) => {
    const edge = savepoints.follow(sql, inTransaction)
    if (edge) inTransaction = edge === 'begin'
    if (/^begin/i.test(sql)) inTransaction = true
    return edge
  })
}

test.each<[string[], (string | null)[]]>([
  [
    ['savepoint a', 'insert', 'release a'],
    ['begin', null, 'commit'],
  ],
  [
    ['SAVEPOINT "A";', 'release savepoint a'],
    ['begin', 'commit'],
  ],
  [
    ['/* x */ savepoint a -- y', ' release [a] ;'],
    ['begin', 'commit'],
  ],
  [
    ['savepoint a', 'savepoint b', 'release b', 'release a'],
    ['begin', null, null, 'commit'],
  ],
  [
    ['savepoint a', 'savepoint a', 'release a', 'release a'],
    ['begin', null, null, 'commit'],
  ],
  [
    ['savepoint a', 'savepoint b', 'release a'],
    ['begin', null, 'commit'],
  ],
  [
    ['savepoint a', 'savepoint b', 'rollback to a', 'release b', 'release a'],
    ['begin', null, null, null, 'commit'],
  ],
  [
    ['savepoint a', 'rollback to savepoint a', 'release a', 'savepoint b'],
    ['begin', null, 'commit', 'begin'],
  ],
  [
    ['begin', 'savepoint a', 'release a'],
    [null, null, null],
  ],
  [
    ['release a', 'select savepoint', 'rollback to a'],
    [null, null, null],
  ],
])('%j', (statements, edges) => {
  expect(follow(statements)).toEqual(edges)
})
