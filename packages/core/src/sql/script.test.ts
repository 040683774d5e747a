import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { splitStatements } from './script.ts'

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
    ['select 1 as a\u00a0; select 2\u2003', ['select 1 as a\u00a0', 'select 2\u2003']],
    ['select 1 as a\ufeff \t\r\n\f;', ['select 1 as a\ufeff']],
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

  test('splits a script where SQLite does', () => {
    const names = [
      'a',
      '"b;"',
      '`c;`',
      '[d--]',
      "'e;'",
      'f\u00a0',
      'g\ufeff',
      '\u3000',
      'h\u0085',
      'i$',
      'end',
    ]
    const gaps = [' ', '\t', '\n', '\f', '\r\n', ' \ufeff', ' --;\n', '/*;*/', "/*'*/", '--"\n', '/**/']
    const templates = [
      'create view if not exists NAME as select 1 as NAME',
      'create temp trigger if not exists NAME after insert on log begin insert into log values ( 1 ) ; select case when 1 then 1 end ; end',
      "create trigger if not exists NAME before insert on log begin select ';' as NAME ; end",
      'explain create trigger NAME after insert on log begin select 1 ; end',
      "insert into log values ( 'it''s;' )",
      'alter table log add column NAME',
      'drop trigger if exists NAME',
    ]
    const word = (text: string) => (text === 'NAME' ? fc.constantFrom(...names) : fc.constant(text))
    const gap = fc.constantFrom(...gaps)
    const statement = fc
      .constantFrom(...templates)
      .chain((text) => fc.tuple(...text.split(' ').flatMap((token) => [word(token), gap])))
    const script = fc
      .array(fc.tuple(statement, fc.constantFrom(';', ';;', ' ; ')))
      .map((parts) => parts.flat(2).join(''))
    const run = (scripts: readonly string[]): unknown => {
      const db = new DatabaseSync(':memory:')
      db.exec('create table log (v)')
      let error: unknown = null
      try {
        for (const each of scripts) db.exec(each)
      } catch (reason) {
        error = String(reason)
      }
      const schema = db
        .prepare('select sql from sqlite_schema union all select sql from sqlite_temp_schema')
        .all()
      const contents = [error, schema, db.prepare('select v from log').all()]
      db.close()
      return contents
    }
    fc.assert(
      fc.property(script, (text) => {
        expect(run(getTexts(text))).toEqual(run([text]))
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
