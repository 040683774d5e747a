import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  canShareConnection,
  checkControl,
  type StatementKind,
  setsForeignKeys,
  statementKind,
} from './statement-kind.ts'
import { getVerb } from './verb.ts'

test.each<[string, StatementKind]>([
  ['BEGIN', 'begin'],
  ['begin immediate transaction', 'begin'],
  ['-- a comment; begin\n /* and another */ begin', 'begin'],
  [' ;; /* a */ -- b\n commit;', 'commit'],
  ['End', 'commit'],
  ['end transaction', 'commit'],
  ['\ufeffROLLBACK', 'rollback'],
  ['rollback transaction', 'rollback'],
  ['rollback to a', 'release'],
  ['ROLLBACK /* x */ TRANSACTION -- y\nTO SAVEPOINT a', 'release'],
  ['rollback/**/to a', 'release'],
  ['rollback -- mine\n transaction /* mine */ to savepoint a', 'release'],
  ['rollback -- to a', 'rollback'],
  ['rollbacking to a', 'other'],
  ['release a', 'release'],
  ['savepoint a', 'savepoint'],
  [' ;SAVEPOINT a', 'savepoint'],
  ['/* mine */ -- too\n savepoint "a"', 'savepoint'],
  ['begin/**/immediate', 'begin'],
  ['/* a */ begin /* b', 'begin'],
  ['beginning', 'other'],
  ['explain begin', 'read'],
  ['-- begin', 'other'],
  ['/* begin', 'other'],
  ['constructor', 'other'],
  ['__proto__', 'other'],
  ["select '/* ' begin", 'read'],
  ["attach database 'x' as y", 'session'],
  ['detach y', 'session'],
  ['pragma foreign_keys = off', 'session'],
  ['pragma main.cache_size=10', 'session'],
  ['pragma foreign_keys(0)', 'session'],
  ['PRAGMA foreign_keys(OFF)', 'session'],
  ["PRAGMA foreign_keys('off')", 'session'],
  ['pragma "foreign_keys"(+0)', 'session'],
  ['pragma foreign_keys(/* c */ off)', 'session'],
  ['pragma foreign_keys(-- c\n 0)', 'session'],
  ['pragma foreign_keys', 'pragma'],
  ['pragma table_info(person)', 'pragma'],
  ['pragma "index_list"(person)', 'pragma'],
  ['pragma main.foreign_key_check(person)', 'pragma'],
  ['pragma integrity_check(1)', 'pragma'],
  ['pragma /* (1) */ synchronous /* ( */ (full)', 'session'],
  ["pragma 'a''b'.journal_mode(wal)", 'session'],
  ['select 1', 'read'],
  [' (SELECT 1)', 'read'],
  ['values (1)', 'read'],
  ['explain insert into t values (1)', 'read'],
  ['with x as (select 1) select * from x', 'read'],
  ['/* mine */ select 1', 'read'],
  ['-- mine\n-- too\n select 1', 'read'],
  ['with x as (select 1) insert into t select * from x', 'insert'],
  ["with x as (select 1) select replace('a', 'b', 'c'), replace ('', '', '')", 'read'],
  ["with x as (select 'delete') select * from x", 'change'],
  ["/* mine */ with x as (select '--') insert into t select * from x", 'insert'],
  ["with x as (select '/*') insert into t select '*/' from x", 'insert'],
  ['WITH x AS (SELECT 1) UPDATE t SET a = 1', 'change'],
  ["with x as (select 1) update t set a = replace(a, 'insert', '')", 'change'],
  ['with x as (select 1) replace into t select * from x', 'insert'],
  ['with x as (select 1) insert or ignore into t select * from x', 'insert'],
  ['insert into t values (1)', 'insert'],
  ["insert into a values ('begin')", 'insert'],
  ['-- select\ninsert into t values (1)', 'insert'],
  ['REPLACE into t values (1)', 'insert'],
  ['/* select */ delete from t', 'change'],
  ['update t set a = 1', 'change'],
  ['/* not ended: select 1', 'other'],
  ['create temp table t (a)', 'other'],
  ['selection', 'other'],
  ['', 'other'],
])('%o is %s', (sql, kind) => {
  expect(statementKind(sql)).toBe(kind)
})

test.each([
  ['select 1', true],
  ['with a as (select 1) delete from t', true],
  ['-- mine\nINSERT into t values (1)', true],
  ['savepoint a', false],
  ['/* mine */ savepoint a', false],
  ['release a', false],
  ['pragma foreign_keys = off', false],
  ['pragma foreign_keys', false],
  ["attach 'a' as b", false],
  ['create temp table t (a)', false],
  ['', false],
])('%j can share its connection with other statements: %j', (sql, canShare) => {
  expect(canShareConnection(statementKind(sql))).toBe(canShare)
})

test.each([
  ['pragma foreign_keys = off', true],
  ['/* x */ PRAGMA main."foreign_keys"/* = */(0)', true],
  ["-- a rebuild (see above)\npragma [foreign_keys]('no')", true],
  ['pragma foreign_keys', false],
  ['pragma /*=*/ foreign_keys/**/=off', true],
  ['pragma defer_foreign_keys = on', false],
  ['pragma user_version = 3 /* foreign_keys */', false],
  ["attach 'foreign_keys' as foreign_keys", false],
  ["select 'pragma foreign_keys = off'", false],
])('%j sets foreign keys: %j', (sql, expected) => {
  expect(setsForeignKeys(sql, statementKind(sql))).toBe(expected)
})

test('the verb is the first word after white space and comments, in lower case', () => {
  expect(getVerb('/* a */ -- b\n SELECT 1')).toBe('select')
  expect(getVerb('(VALUES (1))')).toBe('values')
  expect(getVerb('123')).toBe('')
})

// if this took quadratic time, each test would exceed its time limit
test.each([
  ['comments', `${'/**/'.repeat(500_000)}1`],
  ['a comment with many opening marks', `/*${'/*'.repeat(500_000)}1`],
  ['blanks after a verb', `rollback${' '.repeat(500_000)}x`],
  ['comments after a verb', `rollback ${'/**/'.repeat(500_000)}x`],
  ['stars in a comment', `/*${'*'.repeat(2_000_000)}/ select 1`],
  ['comments before a verb', `${'/* x */ '.repeat(500_000)}select 1`],
  ['words', `pragma ${'x '.repeat(500_000)}`],
  ['dashes', '-- '.repeat(500_000)],
  ['blanks and semicolons after COMMIT', `commit${' ;/**/'.repeat(500_000)} x`],
])('long SQL is scanned once: %s', (_, sql) => {
  expect(statementKind(sql)).toBeDefined()
  expect(() => checkControl(sql)).toThrow(SyntaxError)
})

test.each([
  'begin',
  ' ;/* a */ BEGIN -- b\n immediate/**/transaction; -- c',
  'begin transaction',
  'commit',
  'End transaction;;',
  'rollback /* unterminated',
  '(commit',
  'COMMIT TRANSACTION name;',
  "end transaction 'n' -- c",
  'rollback transaction n',
  'begin immediate transaction/**/"n"',
])('%j is a control statement without text after it', (sql) => {
  expect(() => checkControl(sql)).not.toThrow()
})

test.each([
  ['commit; select 1', 'COMMIT'],
  ['commit/**/x', 'COMMIT'],
  ['end transaction transaction', 'END'],
  ['rollback work', 'ROLLBACK'],
  ['begin immediate deferred', 'BEGIN'],
  ['begin work', 'BEGIN'],
  ['commit\u00a0', 'COMMIT'],
  ["begin 'x'", 'BEGIN'],
  ["commit 'x'", 'COMMIT'],
  ['commit transaction a b', 'COMMIT'],
  ['end transaction n; select 1', 'END'],
])('rejects the text after the control statement in %j', (sql, verb) => {
  expect(() => checkControl(sql)).toThrow(new SyntaxError(`unexpected text after ${verb}`))
})

test('every PRAGMA with which SQLite changes foreign keys is recognized', () => {
  const db = new DatabaseSync(':memory:')
  const schemas = ['main', '"a-b"', 'é', '[c d]', "'e''f'", '`g`', 'h$']
  for (const schema of schemas.slice(1)) db.exec(`attach ':memory:' as ${schema}`)
  const gap = fc.constantFrom('', '', ' ', '\n', '/* (= */', '-- =(\n', ' \ufeff')
  const schema = fc.tuple(fc.constantFrom(...schemas), gap, fc.constant('.'), gap)
  const values = ['off', '0', '[off]', 'full', "''", '.0', '-0', '+1', 'foo', 'default', '"no"', '1e3', 'on']
  const parts = fc.tuple(
    fc.constantFrom('pragma ', '/* a */ PRAGMA\n', ';pragma/**/'),
    gap,
    fc.option(schema, { nil: [] }),
    fc.constantFrom(
      'foreign_keys',
      '"foreign_keys"',
      '[FOREIGN_KEYS]',
      "'foreign_keys'",
      'defer_foreign_keys',
    ),
    gap,
    fc.constantFrom('=', '('),
    gap,
    fc.constantFrom(...values),
    gap,
  )
  fc.assert(
    fc.property(parts, (tokens) => {
      const sql = tokens.flat().join('') + (tokens.includes('(') ? ')' : '')
      db.exec('pragma foreign_keys = on')
      try {
        db.exec(sql)
      } catch {
        return
      }
      const { foreign_keys: isOn } = db.prepare('pragma foreign_keys').get() as { foreign_keys: number }
      if (isOn === 0) expect(setsForeignKeys(sql)).toBe(true)
      if (sql.includes('defer_')) expect(setsForeignKeys(sql)).toBe(false)
    }),
    { numRuns: 1_000 },
  )
  db.close()
})
