import { describe, expect, test } from 'vitest'
import { scanSql, splitStatements, unquoteIdentifier } from './scanner.ts'

const tokenTexts = (sql: string): string[] => scanSql(sql).map(({ start, end }) => sql.slice(start, end))
const statements = (sql: string): string[] =>
  splitStatements(sql, scanSql(sql)).map(({ tokens }) => sql.slice(tokens[0]?.start, tokens.at(-1)?.end))

describe('tokens', () => {
  test('after millions of comments', () => {
    const sql = `${'/**/ '.repeat(3_000_000)}a`
    expect(tokenTexts(sql)).toEqual(['a'])
  })

  test.each([
    [
      'SELECT \'it\'\'s\', "a""b", [c]]d, `e``f`',
      ['SELECT', "'it''s'", ',', '"a""b"', ',', '[c]', ']', 'd', ',', '`e``f`'],
    ],
    ["x'00' X'ff' xyz", ["x'00'", "X'ff'", 'xyz']],
    ['1 1.5 .5 1e10 1.e-3 0x1F', ['1', '1.5', '.5', '1e10', '1.e-3', '0x1F']],
    ['? ?12 :a @b $c', ['?', '?12', ':a', '@b', '$c']],
    ['a)\ufeffinsert', ['a', ')', '\ufeffinsert']],
    ['a -- ; not here\n b /* ; nor\n here */ c', ['a', 'b', 'c']],
    ['a /**/ b /*/ c */ d', ['a', 'b', 'd']],
    ['a--', ['a']],
    ['sélect_1$ 🙂', ['sélect_1$', '🙂']],
    ['a->>b||c', ['a', '-', '>', '>', 'b', '|', '|', 'c']],
  ])('%j', (sql, expected) => expect(tokenTexts(sql)).toEqual(expected))

  test.each([
    [
      "insert into t values (1, 'a;b'), (-2.5, x'00')\n,(NULL,+0) returning a",
      "(1, 'a;b'), (-2.5, x'00')\n,(NULL,+0)",
    ],
    ["VALUES ('it''s'); select 1", "('it''s')"],
    ['values (1),(2),(f(3)),(4)', '(1),(2)'],
    ['values (1),(2', '(1)'],
    ['values (1 /* , */, -- )\n 2)', '(1 /* , */, -- )\n 2)'],
  ])('rows of literals are one token: %j', (sql, rows) => {
    const found = scanSql(sql).filter(({ kind }) => kind === 'rows')
    expect(found.map(({ start, end }) => sql.slice(start, end))).toEqual([rows])
  })

  test.each([
    'values (f(1))',
    'values ("a")',
    'values (a)',
    'values (?)',
    'values (1 + 1)',
    'values (- - 1)',
    'values ()',
    'values (1,)',
    'values ((1))',
    "values ('a\0')",
    'values (1\0)',
    'select (1),(2)',
    '"values" (1)',
    'values',
  ])('not rows of literals: %j', (sql) => {
    expect(scanSql(sql).filter(({ kind }) => kind === 'rows')).toEqual([])
  })

  test.each(['SELECT 1 /* abc', '/*/', "'abc", '"abc', '`abc', '[abc', "'it''s"])(
    '%j is unterminated',
    (sql) => {
      expect(scanSql(sql).at(-1)?.kind).toBe('unterminated')
    },
  )

  test('removes the quotes of identifiers', () => {
    const sql = 'plain "a""b" [c d] `e``f` \'text\''
    expect(scanSql(sql).map((token) => unquoteIdentifier(sql, token))).toEqual([
      'plain',
      'a"b',
      'c d',
      'e`f',
      null,
    ])
  })
})

describe('statements', () => {
  const TRIGGER = `CREATE TRIGGER t AFTER INSERT ON a BEGIN
    UPDATE a SET b = CASE WHEN 1 THEN 2 END; SELECT 'END;'; -- END;
  END`
  test.each([
    ['SELECT 1; SELECT 2', ['SELECT 1', 'SELECT 2']],
    [';; SELECT 1 ;; -- c\n;', ['SELECT 1']],
    ['SELECT \';\' ; SELECT [;], ";", `;`', ["SELECT ';'", 'SELECT [;], ";", `;`']],
    [`${TRIGGER}; SELECT 1`, [TRIGGER, 'SELECT 1']],
    [`EXPLAIN ${TRIGGER}; SELECT 1`, [`EXPLAIN ${TRIGGER}`, 'SELECT 1']],
    [`EXPLAIN QUERY PLAN ${TRIGGER}; SELECT 1`, [`EXPLAIN QUERY PLAN ${TRIGGER}`, 'SELECT 1']],
    ['BEGIN; SELECT 1; END; SELECT 2', ['BEGIN', 'SELECT 1', 'END', 'SELECT 2']],
    ['CREATE TABLE "trigger"(a); SELECT 1', ['CREATE TABLE "trigger"(a)', 'SELECT 1']],
    ['-- nothing', []],
    ['', []],
  ])('%j', (sql, expected) => expect(statements(sql)).toEqual(expected))
})
