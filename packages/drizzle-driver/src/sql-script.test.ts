import { expect, test } from 'vitest'
import { splitStatements } from './sql-script.ts'

test.each([
  ['one statement', 'select 1', ['select 1']],
  ['several', 'select 1; select 2 ;\nselect 3', ['select 1', 'select 2', 'select 3']],
  ['nothing', '', []],
  ['empty ones and comments only', ';; -- a;b\n ; /* c; */ ;', []],
  ['comments with a statement', '-- a;b\nselect 1 /* ; */', ['-- a;b\nselect 1 /* ; */']],
  [
    'semicolons in strings and names',
    `select ';', ";", \`;\`, [;], 'it''s;'; select 2`,
    [`select ';', ";", \`;\`, [;], 'it''s;'`, 'select 2'],
  ],
  [
    'a trigger with CASE … END inside',
    'create trigger t after insert on a begin update a set x = case when 1 then 2 end; delete from b; end; select 1',
    [
      'create trigger t after insert on a begin update a set x = case when 1 then 2 end; delete from b; end',
      'select 1',
    ],
  ],
  [
    'a temporary trigger after a comment',
    '/* x */ CREATE TEMP TRIGGER IF NOT EXISTS t AFTER DELETE ON a BEGIN SELECT 1; END;',
    ['/* x */ CREATE TEMP TRIGGER IF NOT EXISTS t AFTER DELETE ON a BEGIN SELECT 1; END'],
  ],
  [
    'columns called begin and end',
    'create table a (begin int, end int); select 1',
    ['create table a (begin int, end int)', 'select 1'],
  ],
  ['a string that never ends is left to the server', "select 'a; select 2", ["select 'a", 'select 2']],
])('%s', (_, script, statements) => {
  expect(splitStatements(script)).toEqual(statements)
})
