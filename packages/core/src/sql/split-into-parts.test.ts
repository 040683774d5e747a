import { describe, expect, test } from 'vitest'
import { splitStatements } from './script.ts'
import { splitIntoParts } from './split-into-parts.ts'

describe('splitIntoParts', () => {
  const shape = (script: string) =>
    splitIntoParts(splitStatements(script)).map(({ transaction, statements, offset }) => [
      transaction?.endKind ?? null,
      statements.map(({ sql }) => sql).join(),
      offset,
    ])

  test.each<[string, unknown[]]>([
    ['', []],
    ['a; b', [[null, 'a,b', 0]]],
    [
      'a; begin; b; c; commit; d',
      [
        [null, 'a', 0],
        ['commit', 'b,c', 2],
        [null, 'd', 5],
      ],
    ],
    ['begin immediate; b; rollback', [['rollback', 'b', 1]]],
    ['begin; b; commit /* all */ transaction -- of it', [['commit', 'b', 1]]],
    ['begin; b; end  \n -- of it', [['commit', 'b', 1]]],
    [
      'begin; end; begin; end transaction',
      [
        ['commit', '', 1],
        ['commit', '', 3],
      ],
    ],
    [
      'begin; savepoint x; rollback to x; release x; commit',
      [['commit', 'savepoint x,rollback to x,release x', 1]],
    ],
  ])('%j', (script, parts) => {
    expect(shape(script)).toEqual(parts)
  })

  test.each([
    ['begin;\n begin', 'line 2, column 2: a transaction is already open'],
    ['select 1; commit', 'line 1, column 11: no transaction is open'],
    ['rollback', 'line 1, column 1: no transaction is open'],
    ...['savepoint a', 'release a', 'rollback to a', 'ROLLBACK/**/TRANSACTION TO SAVEPOINT a'].map((sql) => [
      `begin; end;\n ${sql}; select 1`,
      'line 2, column 2: a savepoint outside a transaction: put BEGIN and COMMIT around it',
    ]),
    [
      'begin;\n pragma foreign_keys = off; commit',
      'line 2, column 2: PRAGMA foreign_keys has no effect inside a transaction: put it before BEGIN',
    ],
    ['begin;\nCOMMIT and chain', 'line 2, column 1: unexpected text after COMMIT'],
    ['begin; commit/**/work', 'line 1, column 8: unexpected text after COMMIT'],
    ['begin; rollback work', 'line 1, column 8: unexpected text after ROLLBACK'],
    ['select 1;\nbegin; select 2', 'line 2, column 1: the transaction is never committed'],
  ])('rejects %j', (script, message) => {
    expect(() => shape(script)).toThrow(new SyntaxError(message))
  })
})
