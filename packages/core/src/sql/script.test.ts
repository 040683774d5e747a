import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { splitIntoParts, splitStatements } from './script.ts'

const getTexts = (script: string): string[] => splitStatements(script).map(({ sql }) => sql)

describe('splitStatements', () => {
  test.each<[string, string[]]>([
    ['', []],
    [' ; ;; -- nothing\n /* nothing */ ', []],
    ['select 1', ['select 1']],
    ['select 1; select 2;', ['select 1', 'select 2']],
    [
      'select \'a;b\'; select "c;d"; select `e;f`; select [g;h]',
      ["select 'a;b'", 'select "c;d"', 'select `e;f`', 'select [g;h]'],
    ],
    ["select 'it''s;'; select 2", ["select 'it''s;'", 'select 2']],
    ['select 1 -- a; b\n, 2; select 3', ['select 1 -- a; b\n, 2', 'select 3']],
    ['/* a; */ select /* b; */ 1; select 2', ['select /* b; */ 1', 'select 2']],
    [
      'create trigger t after insert on a begin insert into b values (1); select case when 1 then 2 end; end; select 1',
      [
        'create trigger t after insert on a begin insert into b values (1); select case when 1 then 2 end; end',
        'select 1',
      ],
    ],
    [
      'CREATE TEMP TRIGGER IF NOT EXISTS t AFTER INSERT ON a BEGIN SELECT 1; /* x */ END -- y\n; select 1',
      ['CREATE TEMP TRIGGER IF NOT EXISTS t AFTER INSERT ON a BEGIN SELECT 1; /* x */ END -- y', 'select 1'],
    ],
    [
      'explain create trigger t after insert on a begin select 1; end; select 2',
      ['explain create trigger t after insert on a begin select 1; end', 'select 2'],
    ],
    [
      'explain query plan create temporary trigger t after insert on a begin select 1; end; select 2',
      ['explain query plan create temporary trigger t after insert on a begin select 1; end', 'select 2'],
    ],
    ['create table "trigger" (a); select 1', ['create table "trigger" (a)', 'select 1']],
    ['create table trigger_log (a); select 1', ['create table trigger_log (a)', 'select 1']],
    ['begin; select 1; end; select 2', ['begin', 'select 1', 'end', 'select 2']],
    // SQLite treats a no-break space as a letter
    ['select 1;\u00a0select 2', ['select 1', '\u00a0select 2']],
    ['\ufeffselect 1', ['select 1']],
  ])('%j', (script, statements) => {
    expect(getTexts(script)).toEqual(statements)
  })

  test('reports where each statement begins', () => {
    const script = 'select 1;\n  select 2; select\n3;\r\n\n-- four\nselect 4'
    expect(splitStatements(script).map(({ line, column }) => [line, column])).toEqual([
      [1, 1],
      [2, 3],
      [2, 13],
      [6, 1],
    ])
  })

  test.each([
    ["select 1;\nselect 'a", 'line 2, column 8: unterminated quote'],
    ['select 1; select "a', 'line 1, column 18: unterminated quote'],
    ["select 'a''b", 'line 1, column 8: unterminated quote'],
    ['select "a""', 'line 1, column 8: unterminated quote'],
    ['select [a', 'line 1, column 8: unterminated quote'],
    ['select 1;\n\n/* and then', 'line 3, column 1: unterminated comment'],
    [
      'select 1;\ncreate trigger t after insert on a begin select 1; select 2;',
      'line 2, column 1: unterminated trigger',
    ],
  ])('rejects unterminated text: %j', (script, message) => {
    expect(() => splitStatements(script)).toThrow(new SyntaxError(message))
  })

  test('splits joined statements again', () => {
    const piece = fc.constantFrom(
      'select 1',
      "insert into t values ('a;''b')",
      'select /* ; */ "x;" from [y;z]',
      'create trigger t after insert on a begin delete from b; end',
      'vacuum',
    )
    const gap = fc.constantFrom(';', ' ;\n', ';;', '; -- x;\n', ';/* ; */')
    fc.assert(
      fc.property(fc.array(fc.tuple(piece, gap)), (pairs) => {
        expect(getTexts(pairs.flat().join(''))).toEqual(pairs.map(([text]) => text))
      }),
    )
  })

  test('splits a long script in linear time', () => {
    const script = "insert into t values ('some text', 12345);\n".repeat(20_000)
    expect(splitStatements(script)).toHaveLength(20_000)
  })

  test.each<[string, (text: string) => string]>([
    ['literal', (text) => `'${text}'`],
    ['literal of doubled quotes', (text) => `'${text.slice(0, 2_000_000).replaceAll('a', "''")}'`],
    ['name', (text) => `"${text}"`],
    ['name in backticks', (text) => `\`${text}\``],
    ['name in brackets', (text) => `[${text}]`],
    ['comment', (text) => `/*${text}*/ 1`],
    ['line comment', (text) => `1 --${text}\n`],
    ['word', (text) => text],
  ])('splits after a long %s', (_, quote) => {
    const sql = `select ${quote('a'.repeat(10_000_000))}`
    expect(getTexts(`${sql}; select 2`).map(({ length }) => length)).toEqual([sql.trimEnd().length, 8])
  })

  test('finds the position of an unterminated quote in long text', () => {
    expect(() => splitStatements(`select '${"a''".repeat(1_000_000)}`)).toThrow(
      'column 8: unterminated quote',
    )
  })
})

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
